package vec

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// These tests read the assembly as it is checked in.

// An instruction is one line of a routine.
type instruction struct {
	file     string
	line     int
	op       string
	operands []string // sources, then the destination
}

func (i instruction) String() string {
	return fmt.Sprintf("%s:%d: %s %s", i.file, i.line, i.op, strings.Join(i.operands, ", "))
}

// A routine is a function in assembly.
type routine struct {
	name   string
	code   []instruction
	labels map[string]int // index of the instruction that follows
}

var textPattern = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)

// parse reads the routines of assembly source.
func parse(file, source string) []*routine {
	var all []*routine
	for n, line := range strings.Split(source, "\n") {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		switch m := textPattern.FindStringSubmatch(line); {
		case m != nil:
			all = append(all, &routine{name: m[1], labels: map[string]int{}})
		case line == "" || line[0] == '#' || strings.HasPrefix(line, "DATA") || strings.HasPrefix(line, "GLOBL"):
		case strings.HasSuffix(line, ":"):
			r := all[len(all)-1]
			r.labels[strings.TrimSuffix(line, ":")] = len(r.code)
		default:
			r := all[len(all)-1]
			op, rest, _ := strings.Cut(line, " ")
			i := instruction{file: file, line: n + 1, op: op}
			for _, operand := range strings.Split(rest, ", ") {
				if operand = strings.TrimSpace(operand); operand != "" {
					i.operands = append(i.operands, operand)
				}
			}
			r.code = append(r.code, i)
		}
	}
	return all
}

func routines(t *testing.T) []*routine {
	t.Helper()
	files, err := filepath.Glob("*.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly here: %v", err)
	}
	var all []*routine
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parse(f, string(source))...)
	}
	return all
}

var (
	upperRegister = regexp.MustCompile(`^[XYZ](1[6-9]|[23][0-9])$|^Z|^K[0-7]$`)
	plainRegister = regexp.MustCompile(`^(AX|BX|CX|DX|SI|DI|BP|R[0-9]+|[XYZ][0-9]+|K[0-7])$`)
	stackSlot     = regexp.MustCompile(`^[0-9]*\(SP\)$`)
)

// TestRoutinesEndClean requires VZEROUPPER before each RET: with the upper halves
// of vector registers in use Go's own code runs many times slower. It requires,
// too, that only routines for AVX-512 use what AVX2 does not have.
func TestRoutinesEndClean(t *testing.T) {
	for _, r := range routines(t) {
		ends := 0
		for i, x := range r.code {
			if x.op == "RET" {
				ends++
				if i == 0 || r.code[i-1].op != "VZEROUPPER" {
					t.Errorf("%v: no VZEROUPPER before it", x)
				}
			}
			if x.op == "CALL" {
				t.Errorf("%v: a call", x)
			}
			for _, o := range x.operands {
				if upperRegister.MatchString(o) && !strings.HasSuffix(r.name, "AVX512") {
					t.Errorf("%v: a register of AVX-512 in %s", x, r.name)
				}
			}
		}
		if ends == 0 {
			t.Errorf("%s does not return", r.name)
		}
	}
}

// An effect is what an instruction does beyond writing its last operand.
type effect int

const (
	writes     effect = 1 << iota // nothing beyond
	reads                         // reads its last operand, too
	compares                      // reads its last operand and does not write it
	setsFlags                     // all of them that a known instruction reads
	mixesFlags                    // some of them
	readsFlags                    // chooses by them
	zeroes                        // to a constant, where its sources are the same
	masks                         // takes a mask, and writes every element whatever it is
	addresses                     // computes an address of memory and reads none
	controls                      // jumps, returns, or writes nothing that is followed
)

// effects are those of every instruction that the assembly uses. Any other is
// refused: whoever adds it says here what it does. The last operand is all that
// one may write, and INCQ and DECQ leave the carry flag alone, which none reads.
var effects = newEffects(map[effect]string{
	controls: "JNE JLT RET VZEROUPPER",
	writes: "MOVL MOVQ MOVWQSX RORXQ VBROADCASTI128 VEXTRACTI128 VINSERTI128 VMOVDQA VMOVDQA64 VMOVDQU VMOVDQU64 VMOVQ " +
		"VPABSW VPACKSSDW VPACKUSDW VPACKUSWB VPADDB VPADDD VPADDQ VPADDW VPAND VPANDN VPBLENDVB VPBLENDW VPBROADCASTD " +
		"VPBROADCASTQ VPBROADCASTW VPCMPGTW VPERM2I128 VPERMQ VPMADDWD VPMINUW VPMOVMSKB VPMOVZXBW VPMULHRSW VPMULHW VPMULLW " +
		"VPOR VPROLQ VPSHUFB VPSHUFD VPSHUFHW VPSHUFLW VPSLLD VPSLLQ VPSLLVD VPSLLW VPSRAW VPSRLD VPSRLDQ VPSRLQ " +
		"VPSRLVD VPSRLVQ VPSRLW VPSUBB VPSUBD VPSUBW VPUNPCKHBW VPUNPCKHDQ VPUNPCKHQDQ VPUNPCKHWD VPUNPCKLBW VPUNPCKLDQ " +
		"VPUNPCKLQDQ VPUNPCKLWD VPXORQ.BCST",
	writes | addresses:         "LEAQ",
	writes | masks:             "KMOVQ VPBLENDMW",
	writes | zeroes:            "VPCMPEQW VPXOR VPXORQ",
	writes | setsFlags:         "ANDNQ",
	reads:                      "VPDPWSSD VPTERNLOGQ",
	reads | setsFlags:          "ADDQ ANDQ DECQ IMULQ INCQ NEGQ ORQ SARQ SHRQ SUBQ",
	reads | setsFlags | zeroes: "XORQ",
	reads | mixesFlags:         "ROLQ",
	reads | readsFlags:         "CMOVQLT",
	compares | setsFlags:       "CMPQ",
})

func newEffects(names map[effect]string) map[string]effect {
	all := map[string]effect{}
	for e, list := range names {
		for _, name := range strings.Fields(list) {
			all[name] = e
		}
	}
	return all
}

func (e effect) has(some effect) bool { return e&some != 0 }

// secrets follows secrets through a routine. What it loads from memory is secret,
// wherever that is, and not the arguments that it is called with. Bytes of its stack are followed like
// registers.
type secrets map[string]bool

const (
	flags     = "flags"     // the register that comparisons set
	arguments = "arguments" // and results, once one of them is a secret
)

// registerPattern finds the registers that make up an address, maskPattern masks.
var (
	registerPattern = regexp.MustCompile(`\b(AX|BX|CX|DX|SI|DI|BP|R[0-9]+|[XYZ][0-9]+)\b`)
	maskPattern     = regexp.MustCompile(`^K[0-7]$`)
)

// canonical names the widest register that one is a part of.
func canonical(register string) string {
	if register[0] == 'X' || register[0] == 'Y' {
		return "Z" + register[1:]
	}
	return register
}

// slot returns the bytes of the stack that an operand of an instruction may take
// up.
func (i instruction) slot(operand string) (bytes []string) {
	width := 8
	for _, o := range i.operands {
		if isVector(o) {
			width = max(width, map[byte]int{'X': 16, 'Y': 32, 'Z': 64}[o[0]])
		}
	}
	from, _ := strconv.Atoi(strings.TrimSuffix(operand, "(SP)")) // nothing is zero
	for b := range width {
		bytes = append(bytes, fmt.Sprintf("%d(SP)", from+b))
	}
	return bytes
}

func isVector(operand string) bool {
	return plainRegister.MatchString(operand) && strings.Contains("XYZ", operand[:1])
}

// get is true if any part of a register or of the stack is secret.
func (s secrets) get(x instruction, operand string) bool {
	if isArgument(operand) {
		return s[arguments]
	}
	if !stackSlot.MatchString(operand) {
		return s[canonical(operand)]
	}
	for _, b := range x.slot(operand) {
		if s[b] {
			return true
		}
	}
	return false
}

// set records whether a register or a part of the stack is secret.
func (s secrets) set(x instruction, operand string, secret bool) {
	if isArgument(operand) {
		s[arguments] = s[arguments] || secret
		return
	}
	if !stackSlot.MatchString(operand) {
		s[canonical(operand)] = secret
		return
	}
	for _, b := range x.slot(operand) {
		// Other stores may be of less than slot returns.
		if secret || x.op == "MOVQ" {
			s[b] = secret
		}
	}
}

// refuse returns what of an instruction cannot be followed.
func refuse(x instruction) error {
	e, known := effects[x.op]
	if !known {
		return fmt.Errorf("%v: an unknown instruction: say in effects what it does", x)
	}
	if e.has(controls) {
		return nil
	}
	if unary := x.op == "DECQ" || x.op == "INCQ" || x.op == "NEGQ"; len(x.operands) < 2 && !(unary && len(x.operands) == 1) {
		return fmt.Errorf("%v: too few operands, so that it may write registers that are none", x)
	}
	if e.has(setsFlags) && e.has(reads|compares) && len(x.operands) > 2 {
		return fmt.Errorf("%v: too many operands", x)
	}
	if (x.op == "SARQ" || x.op == "SHRQ") && !strings.HasPrefix(x.operands[0], "$") {
		return fmt.Errorf("%v: a shift by zero sets no flags", x)
	}
	for _, o := range x.operands {
		switch {
		case strings.HasPrefix(o, "$"), isArgument(o), isPlace(o) && !maskPattern.MatchString(o):
		case maskPattern.MatchString(o):
			if !e.has(masks) {
				return fmt.Errorf("%v: a mask, which may leave elements as they were", x)
			}
		case !isMemory(o), strings.ContainsAny(o, " ;"):
			return fmt.Errorf("%v: an unknown operand, %s", x, o)
		case strings.Contains(o, "SP"):
			return fmt.Errorf("%v: a part of the stack that is not followed", x)
		}
		if e.has(addresses) && (stackSlot.MatchString(o) || isArgument(o)) {
			return fmt.Errorf("%v: an address of the stack, which is not followed there", x)
		}
	}
	return nil
}

// step applies an instruction and returns what is wrong with it.
func (s secrets) step(x instruction) error {
	if err := refuse(x); err != nil {
		return err
	}
	e := effects[x.op]
	for _, o := range x.operands {
		if !isMemory(o) {
			continue
		}
		for _, r := range registerPattern.FindAllString(o, -1) {
			if s[canonical(r)] {
				return fmt.Errorf("%v: the address depends on a secret in %s", x, r)
			}
		}
	}
	if e.has(controls) {
		if strings.HasPrefix(x.op, "J") && s[flags] {
			return fmt.Errorf("%v: the branch depends on a secret", x)
		}
		return nil
	}
	secret := e.has(readsFlags) && s[flags]
	for i, o := range x.operands {
		last := i == len(x.operands)-1
		switch {
		case last && !e.has(reads|compares), strings.HasPrefix(o, "$"):
		case isMemory(o):
			// The registers of an address are none, as has been checked.
			secret = secret || !e.has(addresses)
		default:
			secret = secret || s.get(x, o)
		}
	}
	if e.has(zeroes) && x.operands[0] == x.operands[1] && !isMemory(x.operands[0]) {
		secret = false
	}
	if target := x.operands[len(x.operands)-1]; !isMemory(target) && !e.has(compares) {
		s.set(x, target, secret)
	}
	switch {
	case e.has(setsFlags):
		s[flags] = secret
	case e.has(mixesFlags):
		s[flags] = s[flags] || secret
	}
	return nil
}

// isPlace is true for what secrets are followed through.
func isPlace(operand string) bool {
	return plainRegister.MatchString(operand) || stackSlot.MatchString(operand)
}

// isMemory is true for memory elsewhere.
func isMemory(operand string) bool {
	return strings.HasSuffix(operand, ")") && !isPlace(operand) && !isArgument(operand)
}

// isArgument is true for an argument or a result.
func isArgument(operand string) bool { return strings.HasSuffix(operand, "(FP)") }

// leak looks for a branch or an address that depends on a secret, along every
// path, until nothing new becomes secret.
func (r *routine) leak() error {
	at := make([]secrets, len(r.code)+1)
	work := []int{0}
	at[0] = secrets{}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if i == len(r.code) {
			return fmt.Errorf("%s: its end does not return", r.name)
		}
		x := r.code[i]
		after := secrets{}
		for k, v := range at[i] {
			after[k] = v
		}
		if err := after.step(x); err != nil {
			return err
		}
		var next []int
		if strings.HasPrefix(x.op, "J") {
			if len(x.operands) != 1 {
				return fmt.Errorf("%v: not one label", x)
			}
			target, ok := r.labels[x.operands[0]]
			if !ok {
				return fmt.Errorf("%v: unknown label", x)
			}
			next = append(next, target)
		}
		if x.op != "RET" {
			next = append(next, i+1)
		}
		for _, n := range next {
			changed := at[n] == nil
			if changed {
				at[n] = secrets{}
			}
			for k, v := range after {
				if v && !at[n][k] {
					at[n][k], changed = true, true
				}
			}
			if changed {
				work = append(work, n)
			}
		}
	}
	return nil
}

// TestRoutinesAreConstantTime follows secrets through every routine: whatever is
// loaded from memory, tables included, decides no branch and no address.
func TestRoutinesAreConstantTime(t *testing.T) {
	names, used := map[string]bool{}, map[string]bool{}
	for _, r := range routines(t) {
		names[r.name] = true
		for _, x := range r.code {
			used[x.op] = true
		}
		if err := r.leak(); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	for _, name := range []string{"permuteAVX512", "permuteAVX2", "permuteOne", "forward3", "pointwise5", "pointwise5VNNI", "divide", "divideAVX512", "decode", "compress10"} {
		if !names[name] {
			t.Errorf("%s has not been checked", name)
		}
	}
	for op := range effects {
		if !used[op] {
			t.Errorf("%s is known and nothing uses it", op)
		}
	}
}

// TestLeaksAreFound plants leaks, and what is none.
func TestLeaksAreFound(t *testing.T) {
	const (
		branch  = "the branch depends on a secret"
		address = "the address depends on a secret"
		unknown = "an unknown instruction"
	)
	for _, c := range []struct{ what, code, want string }{
		{"a branch on a loaded word", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nORQ CX, CX\nJNE end\nend:\nRET", branch},
		{"a branch on memory", "MOVQ in+0(FP), AX\nCMPQ (AX), $1\nJNE end\nend:\nRET", branch},
		{"a branch on memory, compared the other way around", "MOVQ in+0(FP), AX\nMOVQ n+8(FP), CX\nCMPQ CX, (AX)\nJNE end\nend:\nRET", branch},
		{"a branch on memory that is added to", "MOVQ in+0(FP), AX\nADDQ $1, (AX)\nJNE end\nend:\nRET", branch},
		{"a branch on memory that is counted", "MOVQ in+0(FP), AX\nDECQ (AX)\nJNE end\nend:\nRET", branch},
		{"an address that was loaded", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ (DX)(CX*8), DX\nRET", address},
		{"an address that was computed", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nADDQ AX, CX\nMOVQ (CX), DX\nRET", address},
		{"an address to store to", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ AX, (AX)(CX*8)\nRET", address},
		{"an address of an address", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nLEAQ (AX)(CX*8), DX\nMOVQ (DX), DX\nRET", address},
		{"a branch on a vector's mask", "MOVQ in+0(FP), AX\nVMOVDQU (AX), Y1\nVPMOVMSKB Y1, CX\nANDQ $1, CX\nJNE end\nend:\nRET", branch},
		{"a branch on a vector of AVX-512", "MOVQ in+0(FP), AX\nVMOVDQU64 (AX), Z17\nVPXORQ Z17, Z16, Z16\nVMOVQ X16, CX\nDECQ CX\nJNE end\nend:\nRET", branch},
		{"a leak in the second round of a loop", "MOVQ in+0(FP), AX\nXORQ CX, CX\nround:\nINCQ CX\nJNE next\nnext:\nMOVQ (AX), CX\nDECQ AX\nJNE round\nRET", branch},
		{"a choice by a secret", "MOVQ in+0(FP), AX\nMOVQ n+8(FP), DX\nCMPQ (AX), $1\nCMOVQLT AX, DX\nMOVQ (DX), DX\nRET", address},
		{"a rotation between a comparison and its branch", "MOVQ in+0(FP), AX\nCMPQ (AX), $1\nROLQ $1, DX\nJLT end\nend:\nRET", branch},
		{"a sum of products", "MOVQ in+0(FP), AX\nVMOVDQU (AX), Y1\nVPXOR Y2, Y2, Y2\nVPDPWSSD Y2, Y2, Y1\nVMOVQ X1, CX\nMOVQ (AX)(CX*8), R8\nRET", address},
		{"a blend by a secret mask", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nKMOVQ CX, K1\nVPXOR Y2, Y2, Y2\nVPBLENDMW Y2, Y2, K1, Y3\nVMOVQ X3, CX\nMOVQ (AX)(CX*8), R8\nRET", address},
		{"a secret by way of the stack", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, 8(SP)\nMOVQ 8(SP), DX\nMOVQ (AX)(DX*1), DX\nRET", address},
		{"a wide store to the stack and a narrow load", "MOVQ in+0(FP), AX\nVMOVDQU (AX), Y1\nVMOVDQU Y1, (SP)\nMOVQ 8(SP), CX\nMOVQ (AX)(CX*8), R8\nRET", address},
		{"a store to the stack between two words", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, 4(SP)\nMOVQ 8(SP), CX\nMOVQ (AX)(CX*8), R8\nRET", address},
		{"half a secret on the stack overwritten", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, (SP)\nMOVL AX, (SP)\nMOVQ (SP), CX\nMOVQ (AX)(CX*8), R8\nRET", address},
		{"a secret by way of a result", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, ret+8(FP)\nMOVQ ret+8(FP), DX\nMOVQ (AX)(DX*1), DX\nRET", address},
		{"a result by its address", "LEAQ ret+8(FP), AX\nRET", "an address of the stack"},
		{"a part of the stack by an index", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, (SP)(AX*8)\nRET", "a part of the stack"},
		{"a part of the stack by an address", "LEAQ 8(SP), AX\nRET", "an address of the stack"},
		{"a merge by a mask", "MOVQ in+0(FP), AX\nMOVQ n+8(FP), CX\nVMOVDQU64 (AX), Z1\nVPXORQ Z2, Z2, Z2\nKMOVQ CX, K1\nVMOVDQA64 Z2, K1, Z1\nVMOVQ X1, CX\nMOVQ (AX)(CX*8), R8\nRET", "a mask"},
		{"the high half of a product", "MOVQ in+0(FP), BX\nMOVQ n+8(FP), AX\nIMULQ (BX)\nMOVQ (BX)(DX*8), SI\nRET", "too few operands"},
		{"a shift of two words", "MOVQ in+0(FP), BX\nSHRQ $3, DX, CX\nRET", "too many operands"},
		{"a shift that may set no flags", "MOVQ in+0(FP), AX\nCMPQ (AX), $1\nSHRQ CX, DX\nJNE end\nend:\nRET", "sets no flags"},
		{"two instructions in a line", "MOVQ in+0(FP), AX; MOVQ (AX), CX\nRET", "an unknown operand"},
		{"a part of a register", "MOVL AL, CX\nRET", "an unknown operand"},
		{"no end", "MOVQ in+0(FP), AX", "does not return"},

		{"a test of a vector", "MOVQ in+0(FP), AX\nVMOVDQU (AX), Y1\nVPTEST Y1, Y1\nJNE end\nend:\nRET", unknown},
		{"a gather", "MOVQ in+0(FP), AX\nVMOVDQU (AX), Y1\nVPXOR Y3, Y3, Y3\nVPGATHERDD Y3, (AX)(Y1*4), Y2\nRET", unknown},
		{"a mask of the carry", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nCMPQ CX, $1\nMOVQ in+0(FP), DX\nSBBQ DX, DX\nMOVQ (AX)(DX*8), BX\nRET", unknown},
		{"the high half of MULQ", "MOVQ in+0(FP), BX\nMOVQ (BX), CX\nMOVQ n+8(FP), AX\nMULQ CX\nMOVQ (BX)(DX*8), SI\nRET", unknown},
		{"the low half of MULXQ", "MOVQ in+0(FP), BX\nMOVQ (BX), DX\nMULXQ DX, SI, DI\nMOVQ (BX)(SI*8), R8\nRET", unknown},
		{"an exchange", "MOVQ in+0(FP), BX\nMOVQ (BX), CX\nXORQ DX, DX\nXCHGQ DX, CX\nMOVQ (BX)(DX*8), R8\nRET", unknown},
		{"a permutation of two vectors", "MOVQ in+0(FP), AX\nVMOVDQU64 (AX), Z1\nVPXORQ Z2, Z2, Z2\nVPERMT2W Z2, Z2, Z1\nVMOVQ X1, CX\nMOVQ (AX)(CX*8), R8\nRET", unknown},
		{"a division", "MOVQ in+0(FP), BX\nDIVQ BX\nRET", unknown},
		{"a jump", "MOVQ in+0(FP), AX\nJMP (AX)", unknown},
		{"a call", "CALL ·other(SB)\nRET", unknown},
		{"bytes", "BYTE $0x90\nRET", unknown},

		{"a count on the stack", "MOVQ n+0(FP), AX\nMOVQ AX, (SP)\nround:\nMOVQ (SP), CX\nDECQ CX\nMOVQ CX, (SP)\nJNE round\nRET", ""},
		{"a count beside a secret on the stack", "MOVQ n+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, 8(SP)\nMOVQ AX, (SP)\nDECQ (SP)\nJNE end\nend:\nRET", ""},
		{"a secret on the stack that is overwritten", "MOVQ n+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, 8(SP)\nMOVQ AX, 8(SP)\nMOVQ 8(SP), CX\nMOVQ (AX)(CX*8), R8\nRET", ""},
		{"a loop over a public count", "MOVQ in+0(FP), AX\nMOVQ n+8(FP), CX\nround:\nVMOVDQU (AX), Y1\nVMOVDQU Y1, (AX)\nADDQ $32, AX\nDECQ CX\nJNE round\nRET", ""},
		{"a secret that is overwritten", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nXORQ CX, CX\nMOVQ (AX)(CX*1), DX\nRET", ""},
	} {
		err := parse("planted", "TEXT ·planted(SB)\n"+c.code)[0].leak()
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}
