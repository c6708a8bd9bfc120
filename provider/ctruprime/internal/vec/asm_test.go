package vec

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// secrets follows secrets through a routine. What it loads from memory is secret,
// wherever that is, and not its arguments. Words of its stack are followed like
// registers.
type secrets map[string]bool

// flags is the register that comparisons set.
const flags = "flags"

// registers are those that make up an address or are an operand.
var registerPattern = regexp.MustCompile(`\b(AX|BX|CX|DX|SI|DI|BP|R[0-9]+)\b`)

// canonical names the widest register that one is a part of.
func canonical(register string) string {
	if register[0] == 'X' || register[0] == 'Y' {
		return "Z" + register[1:]
	}
	return register
}

// step applies an instruction and returns what is wrong with it.
func (s secrets) step(x instruction) error {
	for _, o := range x.operands {
		if !isMemory(o) {
			continue
		}
		for _, r := range registerPattern.FindAllString(o, -1) {
			if s[r] {
				return fmt.Errorf("%v: the address depends on a secret in %s", x, r)
			}
		}
	}
	if strings.HasPrefix(x.op, "J") {
		if x.op != "JMP" && s[flags] {
			return fmt.Errorf("%v: the branch depends on a secret", x)
		}
		return nil
	}
	if strings.HasPrefix(x.op, "DIV") || strings.HasPrefix(x.op, "IDIV") {
		return fmt.Errorf("%v: a division", x)
	}
	if len(x.operands) == 0 {
		return nil
	}
	secret := false
	for i, o := range x.operands {
		last := i == len(x.operands)-1
		switch {
		case strings.HasPrefix(o, "$"), strings.HasSuffix(o, "(FP)"):
		case isMemory(o):
			// Address arithmetic reads no memory, nor does a store.
			secret = secret || x.op != "LEAQ" && !(last && len(x.operands) > 1)
		case !isPlace(o):
			return fmt.Errorf("%v: unknown operand %s", x, o)
		case !last || len(x.operands) == 1 || readsDestination(x):
			secret = secret || s[canonical(o)]
		}
	}
	if conditional := strings.HasPrefix(x.op, "CMOV"); conditional {
		secret = secret || s[flags]
	}
	target := x.operands[len(x.operands)-1]
	if clears(x) {
		secret = false
	}
	if isPlace(target) && !strings.HasPrefix(x.op, "CMP") && !strings.HasPrefix(x.op, "TEST") {
		s[canonical(target)] = secret
	}
	if setsFlags(x) {
		s[flags] = secret
	}
	return nil
}

// isPlace is true for what secrets are followed through.
func isPlace(operand string) bool {
	return plainRegister.MatchString(operand) || stackSlot.MatchString(operand)
}

// isMemory is true for memory elsewhere.
func isMemory(operand string) bool { return strings.HasSuffix(operand, ")") && !isPlace(operand) }

// readsDestination is true for integer instructions of two operands and for
// vector instructions that accumulate.
func readsDestination(x instruction) bool {
	if strings.HasPrefix(x.op, "VPTERNLOG") || strings.HasPrefix(x.op, "VPDP") {
		return true
	}
	return !strings.HasPrefix(x.op, "V") && !strings.HasPrefix(x.op, "MOV") && x.op != "LEAQ"
}

// clears is true for x ^ x, and for x == x in a vector.
func clears(x instruction) bool {
	o := x.operands
	switch {
	case x.op == "XORQ" || x.op == "XORL":
		return o[0] == o[1]
	case strings.HasPrefix(x.op, "VPXOR"), strings.HasPrefix(x.op, "VPCMPEQ"):
		return o[0] == o[1]
	}
	return false
}

func setsFlags(x instruction) bool {
	for _, prefix := range []string{"V", "MOV", "LEA", "CMOV", "NOT"} {
		if strings.HasPrefix(x.op, prefix) {
			return false
		}
	}
	return true
}

// leak looks for a branch or an address that depends on a secret, along every
// path, until nothing new becomes secret.
func (r *routine) leak() error {
	at := make([]secrets, len(r.code)+1)
	work := []int{0}
	at[0] = secrets{}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
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
			target, ok := r.labels[x.operands[0]]
			if !ok {
				return fmt.Errorf("%v: unknown label", x)
			}
			next = append(next, target)
		}
		if x.op != "JMP" && x.op != "RET" {
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
	names := map[string]bool{}
	for _, r := range routines(t) {
		names[r.name] = true
		if err := r.leak(); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	for _, name := range []string{"permuteAVX512", "permuteAVX2", "permuteOne", "forward3", "pointwise5", "pointwise5VNNI", "divide", "divideAVX512", "decode", "compress10"} {
		if !names[name] {
			t.Errorf("%s has not been checked", name)
		}
	}
}

// TestLeaksAreFound plants leaks.
func TestLeaksAreFound(t *testing.T) {
	for _, c := range []struct {
		what, code string
		leaks      bool
	}{
		{"a branch on a loaded word", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nTESTQ CX, CX\nJNE end\nend:\nRET", true},
		{"a branch on memory", "MOVQ in+0(FP), AX\nCMPQ (AX), $1\nJNE end\nend:\nRET", true},
		{"an address that was loaded", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ (DX)(CX*8), DX\nRET", true},
		{"a branch on a vector's mask", "MOVQ in+0(FP), AX\nVMOVDQU (AX), Y1\nVPMOVMSKB Y1, CX\nANDQ $1, CX\nJNE end\nend:\nRET", true},
		{"a branch on a vector of AVX-512", "MOVQ in+0(FP), AX\nVMOVDQU64 (AX), Z17\nVPXORQ Z17, Z16, Z16\nVMOVQ X16, CX\nDECQ CX\nJNE end\nend:\nRET", true},
		{"a leak in the second round of a loop", "MOVQ in+0(FP), AX\nXORQ CX, CX\nround:\nINCQ CX\nJNE next\nnext:\nMOVQ (AX), CX\nJMP round\nRET", true},
		{"a secret by way of the stack", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nMOVQ CX, 8(SP)\nMOVQ 8(SP), DX\nMOVQ (AX)(DX*1), DX\nRET", true},
		{"a count on the stack", "MOVQ n+0(FP), AX\nMOVQ AX, (SP)\nround:\nMOVQ (SP), CX\nDECQ CX\nMOVQ CX, (SP)\nJNE round\nRET", false},
		{"a loop over a public count", "MOVQ in+0(FP), AX\nMOVQ n+8(FP), CX\nround:\nVMOVDQU (AX), Y1\nVMOVDQU Y1, (AX)\nADDQ $32, AX\nDECQ CX\nJNE round\nRET", false},
		{"a secret that is overwritten", "MOVQ in+0(FP), AX\nMOVQ (AX), CX\nXORQ CX, CX\nMOVQ (AX)(CX*1), DX\nRET", false},
	} {
		r := parse("planted", "TEXT ·planted(SB)\n"+c.code)[0]
		if err := r.leak(); (err != nil) != c.leaks {
			t.Errorf("%s: got %v", c.what, err)
		}
	}
}
