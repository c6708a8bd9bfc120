package kernels_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/kernels"
)

// The kernels of the curves do nothing that depends on what they compute with: in their PTX no value that comes from memory, nor one
// derived from it, decides a branch or whether an instruction is carried out, is an address, or is divided. Only the source lane
// of a shuffle may be secret.
func TestConstantTime(t *testing.T) {
	for curve, entries := range map[kernels.Curve]int{kernels.Curve25519: len(kernels.X25519Shapes()), kernels.P256: 2 * len(kernels.P256Shapes())} {
		t.Run(curve.String(), func(t *testing.T) {
			text, err := kernels.Module{Curve: curve}.PTX()
			if err != nil {
				t.Fatal(err)
			}
			functions := 0
			for _, f := range ptxFunctions(string(text)) {
				functions++
				for _, violation := range f.secretDependencies() {
					t.Errorf("%s: %s", f.name, violation)
				}
			}
			if functions < entries {
				t.Errorf("found %d functions, want %d at least", functions, entries)
			}
		})
	}
}

// Each kind of violation is found, and what is allowed is not taken for one.
func TestConstantTimeFinds(t *testing.T) {
	const frame = `.visible .entry k(
	.param .u64 k_param_0
)
{
	ld.param.u64 	%%rd1, [k_param_0];
	ld.global.u32 	%%r1, [%%rd1];
	mov.u32 	%%r2, %%tid.x;
	%s
	ret;
}
`
	for name, c := range map[string]struct {
		code string
		want int
	}{
		"public branch":     {"setp.eq.s32 %p1, %r2, 0;\n@%p1 bra $L1;", 0},
		"selection":         {"setp.eq.s32 %p1, %r1, 0;\nselp.b32 %r3, %r1, %r2, %p1;", 0},
		"shuffle":           {"shfl.sync.idx.b32 %r3, %r2, %r1, 31, -1;", 0},
		"branch":            {"setp.eq.s32 %p1, %r1, 0;\n@!%p1 bra $L1;", 1},
		"predication":       {"setp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd1], %r2;", 1},
		"address":           {"cvt.u64.u32 %rd2, %r1;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.u32 %r3, [%rd3+4];", 1},
		"store address":     {"cvt.u64.u32 %rd2, %r1;\nst.shared.v2.u32 [%rd2], {%r2, %r2};", 1},
		"division":          {"div.u32 %r3, %r2, %r1;", 1},
		"remainder":         {"xor.b32 %r3, %r1, %r2;\nrem.u32 %r4, %r3, %r2;", 1},
		"carry":             {"add.cc.u32 %r3, %r1, %r1;\naddc.u32 %r4, 0, 0;\nsetp.eq.s32 %p1, %r4, 0;\n@%p1 bra $L1;", 1},
		"carried backwards": {"$L1:\nsetp.eq.s32 %p1, %r5, 0;\n@%p1 bra $L1;\nmov.u32 %r5, %r1;", 1},
		"call":              {"call.uni (retval0), f, (param0);\nld.param.b32 %r3, [retval0+0];\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra $L1;", 1},
	} {
		t.Run(name, func(t *testing.T) {
			functions := ptxFunctions(fmt.Sprintf(frame, c.code))
			if len(functions) != 1 {
				t.Fatalf("found %d functions", len(functions))
			}
			if got := functions[0].secretDependencies(); len(got) != c.want {
				t.Errorf("found %q, want %d violations", got, c.want)
			}
		})
	}
}

// ptxFunction is the body of an entry or function, one instruction a string, without labels and declarations.
type ptxFunction struct {
	name  string
	entry bool
	code  []string
}

var ptxStart = regexp.MustCompile(`\.(entry|func)\s*(?:\([^)]*\))?\s*([\w$]+)`)

// ptxFunctions splits a text into its functions.
func ptxFunctions(text string) []ptxFunction {
	var functions []ptxFunction
	for _, start := range ptxStart.FindAllStringSubmatchIndex(text, -1) {
		rest := text[start[1]:]
		open := strings.IndexAny(rest, "{;")
		if open < 0 || rest[open] == ';' { // a declaration
			continue
		}
		f := ptxFunction{name: text[start[4]:start[5]], entry: text[start[2]:start[3]] == "entry"}
		end := strings.Index(rest, "\n}")
		for _, statement := range strings.Split(rest[open+1:end], ";") {
			for line := range strings.Lines(statement) { // labels and braces stand in lines of their own
				line, _, _ = strings.Cut(line, "//")
				line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "{ "))
				if line == "" || strings.HasSuffix(line, ":") || line == "{" || line == "}" || strings.HasPrefix(line, ".") {
					continue
				}
				// A call's operands take several lines.
				if n := len(f.code); n > 0 && (strings.HasSuffix(f.code[n-1], ",") || strings.HasSuffix(f.code[n-1], "(")) || line == "(" || line == ")" {
					f.code[n-1] += " " + line
					continue
				}
				f.code = append(f.code, line)
			}
		}
		functions = append(functions, f)
	}
	return functions
}

var (
	ptxInstruction = regexp.MustCompile(`^(?:@!?(%p\d+)\s+)?([a-z][\w.:]*)\s*(.*)$`)
	ptxRegister    = regexp.MustCompile(`%[a-z]+\d+`)
	ptxAddress     = regexp.MustCompile(`\[([^\]]*)\]`)
)

// secretDependencies describes every instruction whose timing or address depends on a secret. What is loaded from memory counts as
// secret, and so do a function's parameters and results; an entry's parameters do not, which are addresses and sizes. A register or the
// carry is secret if any of its definitions is, wherever it stands.
func (f ptxFunction) secretDependencies() []string {
	const carry = "carry"
	secret := map[string]bool{}
	for changed := true; changed; {
		changed = false
		mark := func(register string) {
			if !secret[register] {
				secret[register], changed = true, true
			}
		}
		for _, line := range f.code {
			m := ptxInstruction.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			op, operands := m[2], m[3]
			name, _, _ := strings.Cut(op, ".")
			results, sources := ptxOperands(operands)
			isSecret := false
			for _, r := range sources {
				isSecret = isSecret || secret[r]
			}
			switch name {
			case "ld":
				isSecret = !strings.HasPrefix(op, "ld.param") || strings.Contains(operands, "[retval") || !f.entry
			case "st", "bra", "bar", "ret":
				continue
			}
			if strings.HasPrefix(name, "addc") || strings.HasPrefix(name, "subc") || strings.HasPrefix(name, "madc") {
				isSecret = isSecret || secret[carry]
			}
			if !isSecret {
				continue
			}
			for _, r := range results {
				mark(r)
			}
			if strings.Contains(op, ".cc.") {
				mark(carry)
			}
		}
	}
	var found []string
	for _, line := range f.code {
		m := ptxInstruction.FindStringSubmatch(line)
		if m == nil {
			found = append(found, "not understood: "+line)
			continue
		}
		predicate, op, operands := m[1], m[2], m[3]
		if predicate != "" && secret[predicate] {
			found = append(found, "carried out or not by a secret: "+line)
		}
		if a := ptxAddress.FindStringSubmatch(operands); a != nil {
			for _, r := range ptxRegister.FindAllString(a[1], -1) {
				if secret[r] {
					found = append(found, "a secret address: "+line)
				}
			}
		}
		name, _, _ := strings.Cut(op, ".")
		if name == "div" || name == "rem" || name == "brx" {
			for _, r := range ptxRegister.FindAllString(operands, -1) {
				if secret[r] {
					found = append(found, "time depends on a secret: "+line)
					break
				}
			}
		}
	}
	return found
}

// ptxOperands returns the registers that an instruction's first operand, a register or a list of them, names, and those of the others.
func ptxOperands(operands string) (results, sources []string) {
	end := strings.IndexByte(operands, ',')
	if strings.HasPrefix(operands, "{") {
		end = strings.IndexByte(operands, '}')
	}
	if end < 0 {
		end = len(operands)
	}
	return ptxRegister.FindAllString(operands[:end], -1), ptxRegister.FindAllString(operands[end:], -1)
}
