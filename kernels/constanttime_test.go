package kernels_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
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
				for _, violation := range f.secretDependencies(publicFacts{}) {
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
$L2:
	ret;
}
`
	for name, c := range map[string]struct {
		code string
		want int
	}{
		"public branch":     {"setp.eq.s32 %p1, %r2, 0;\n@%p1 bra $L2;", 0},
		"selection":         {"setp.eq.s32 %p1, %r1, 0;\nselp.b32 %r3, %r1, %r2, %p1;", 0},
		"shuffle":           {"shfl.sync.idx.b32 %r3, %r2, %r1, 31, -1;", 0},
		"branch":            {"setp.eq.s32 %p1, %r1, 0;\n@!%p1 bra $L2;", 1},
		"predication":       {"setp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd1], %r2;", 1},
		"address":           {"cvt.u64.u32 %rd2, %r1;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.u32 %r3, [%rd3+4];", 1},
		"store address":     {"cvt.u64.u32 %rd2, %r1;\nst.shared.v2.u32 [%rd2], {%r2, %r2};", 1},
		"division":          {"div.u32 %r3, %r2, %r1;", 1},
		"remainder":         {"xor.b32 %r3, %r1, %r2;\nrem.u32 %r4, %r3, %r2;", 1},
		"carry":             {"add.cc.u32 %r3, %r1, %r1;\naddc.u32 %r4, 0, 0;\nsetp.eq.s32 %p1, %r4, 0;\n@%p1 bra $L2;", 1},
		"carried backwards": {"$L1:\nsetp.eq.s32 %p1, %r5, 0;\n@%p1 bra $L2;\nmov.u32 %r5, %r1;\nbra $L1;", 1},
		"call":              {"call.uni (retval0), f, (param0);\nld.param.b32 %r3, [retval0+0];\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra $L2;", 1},
	} {
		t.Run(name, func(t *testing.T) {
			functions := ptxFunctions(fmt.Sprintf(frame, c.code))
			if len(functions) != 1 {
				t.Fatalf("found %d functions", len(functions))
			}
			if got := functions[0].secretDependencies(publicFacts{}); len(got) != c.want {
				t.Errorf("found %q, want %d violations", got, c.want)
			}
		})
	}
}

// allowance is what a kernel of the KEM does by values that its analysis takes for secret and that are public: whether a key is
// well-formed, of which status tells the caller. A public key's can be seen by anyone; a secret key's is public on the CPU too
// (SECURITY.md). The numbers are exact: one instruction more or less is an error, and so is a vote that need not be public.
type allowance struct {
	reason   string
	votes    []int // public ones, by their place in the text; the others, that on the ciphertexts' difference above all, stay secret
	branches int   // by a lane's part of a verdict, before the vote, or by a verdict from shared memory, which is secret as a whole
	stores   int   // into status, of verdicts from shared memory
}

// allowances by the kernels' names without the set.
var allowances = map[string]allowance{
	"encaps_product_mma":   {reason: "the vote on the public key goes into status", votes: []int{0}},
	"encaps_product_ntt":   {reason: "the public key's verdict passes from one warp to the others, and into status", stores: 1},
	"encaps_product_tiled": {reason: "as with the transform", stores: 1},
	"encaps_one":           {reason: "the public key's verdict passes from one warp to the others, and into status", stores: 1},
	"encaps_shared":        {reason: "the public key's verdict passes from one warp to the others, and into status", stores: 1},
	"decaps_decrypt_mma":   {reason: "a lane looks at the padding of sk_f if its nibbles are in range, one at the index if the vote says so of all", votes: []int{0}, branches: 1},
	"decaps_decrypt_ntt":   {reason: "as on the Tensor Cores", votes: []int{0}, branches: 1},
	"decaps_decrypt_tiled": {reason: "as on the Tensor Cores", votes: []int{0}, branches: 1},
	"decaps_open":          {reason: "as decaps_decrypt_mma, whose work it does", votes: []int{0}, branches: 1},
	"decaps_select_mma":    {reason: "the status of before is looked at if the vote finds the public key valid", votes: []int{0}},
	"decaps_select_ntt":    {reason: "the same, but the public key's verdict comes from another warp", branches: 1},
	"decaps_select_tiled":  {reason: "as with the transform", branches: 1},
	"decaps_one":           {reason: "as decaps_decrypt_mma; and both keys' verdicts pass from their warps to another, and into status", votes: []int{0}, branches: 1, stores: 1},
}

// complaints are the violations of an entry beyond the allowance, and what of the allowance it does not need.
func (a allowance) complaints(f ptxFunction, parameters []string) []string {
	memory := publicMemoryOf(f.name, parameters)
	var complaints []string
	branches, stores := []string{}, []string{}
	found := f.secretDependencies(publicFacts{memory, a.votes})
	for _, violation := range found {
		switch {
		case strings.HasPrefix(violation, "carried out or not by a secret: @") && strings.Contains(violation, " bra"):
			branches = append(branches, violation)
		case strings.HasPrefix(violation, "a secret into public memory: "):
			stores = append(stores, violation)
		default:
			complaints = append(complaints, violation)
		}
	}
	if len(branches) != a.branches {
		complaints = append(complaints, fmt.Sprintf("%d branches by a secret, %d allowed: %q", len(branches), a.branches, branches))
	}
	if len(stores) != a.stores {
		complaints = append(complaints, fmt.Sprintf("%d stores of a secret into public memory, %d allowed: %q", len(stores), a.stores, stores))
	}
	for i, vote := range a.votes {
		others := slices.Delete(slices.Clone(a.votes), i, i+1)
		if len(f.secretDependencies(publicFacts{memory, others})) <= len(found) {
			complaints = append(complaints, fmt.Sprintf("vote %d need not be public", vote))
		}
	}
	return complaints
}

// The kernels of the KEM neither: secret is all that they load but for the rows' numbers in a table of keys and for statuses, so the
// public keys and the ciphertexts too, and all shared memory but for a counter.
func TestKEMConstantTime(t *testing.T) {
	parameters := kernelParameters(t)
	used := map[string]bool{}
	for _, n := range []int{653, 761, 1277} {
		for _, m := range kernels.Multiplications() {
			text, err := kernels.Module{N: n, Multiplication: m}.PTX()
			if err != nil {
				t.Fatal(err)
			}
			functions := ptxFunctions(string(text))
			entries := 0
			for _, f := range functions {
				kernel := strings.TrimSuffix(f.name, fmt.Sprint("_", n))
				names, ok := parameters[kernel]
				if ok != f.entry {
					t.Errorf("%s: an entry: %t; among the kernels in the sources: %t", f.name, f.entry, ok)
				}
				if ok {
					entries++
				}
				used[kernel] = true
				for _, complaint := range allowances[kernel].complaints(f, names) {
					t.Errorf("%s: %s", f.name, complaint)
				}
			}
			if want := entriesOf(parameters, m); entries != want {
				t.Errorf("%d, %s: found %d entries, want %d", n, m, entries, want)
			}
		}
	}
	for kernel, a := range allowances {
		if !used[kernel] {
			t.Errorf("the allowance for %s (%s) is for no kernel", kernel, a.reason)
		}
	}
}

// entriesOf counts the kernels of a multiplication's module; all others are in the base module, with MMA's.
func entriesOf(parameters map[string][]string, m kernels.Multiplication) int {
	count := 0
	for kernel := range parameters {
		of := kernels.MMA
		for _, other := range kernels.Multiplications() {
			if strings.HasSuffix(kernel, "_"+other.String()) {
				of = other
			}
		}
		if of == m {
			count++
		}
	}
	return count
}

// Leaks planted in a small kernel are found, public memory is not taken for one, and an allowance that is not needed is an error.
func TestKEMConstantTimeFinds(t *testing.T) {
	const frame = `.visible .entry k_761(
	.param .u64 k_761_param_0,
	.param .u64 k_761_param_1,
	.param .u64 k_761_param_2
)
{
	ld.param.u64 	%%rd1, [k_761_param_0];
	ld.param.u64 	%%rd2, [k_761_param_1];
	ld.param.u64 	%%rd3, [k_761_param_2];
	cvta.to.global.u64 	%%rd4, %%rd1;
	cvta.to.global.u64 	%%rd5, %%rd2;
	ld.global.u32 	%%r1, [%%rd4];
	ld.global.nc.u32 	%%r2, [%%rd5+8];
	setp.ne.s32 	%%p1, %%r1, 0;
	vote.sync.any.pred 	%%p2, %%p1, -1;
	setp.gt.s32 	%%p5, %%r1, 7;
	vote.sync.any.pred 	%%p3, %%p5, -1;
	%s
$L2:
	ret;
}
`
	for name, c := range map[string]struct {
		code  string
		allow allowance
		want  int
	}{
		"nothing":                    {"", allowance{}, 0},
		"address by the index":       {"mul.wide.u32 %rd6, %r2, 8;\nadd.s64 %rd7, %rd4, %rd6;\nld.global.u32 %r3, [%rd7];", allowance{}, 0},
		"branch by the index":        {"setp.eq.s32 %p4, %r2, 0;\n@%p4 bra $L2;", allowance{}, 0},
		"a counter apart":            {"mov.u32 %r5, %r1;\nmov.u32 %r5, 0;\n$L1:\nadd.s32 %r5, %r5, 1;\nsetp.lt.s32 %p4, %r5, 9;\n@%p4 bra $L1;", allowance{}, 0},
		"branch":                     {"@%p1 bra $L2;", allowance{}, 1},
		"address":                    {"mul.wide.u32 %rd6, %r1, 8;\nadd.s64 %rd7, %rd4, %rd6;\nld.global.u32 %r3, [%rd7];", allowance{}, 1},
		"address in the index":       {"mul.wide.u32 %rd6, %r1, 4;\nadd.s64 %rd7, %rd5, %rd6;\nld.global.u32 %r3, [%rd7];", allowance{}, 1},
		"address between buffers":    {"add.s64 %rd7, %rd5, %rd4;\nld.global.u32 %r3, [%rd7];\nsetp.eq.s32 %p4, %r3, 0;\n@%p4 bra $L2;", allowance{}, 1},
		"address of a copy's source": {"mul.wide.u32 %rd6, %r1, 8;\nadd.s64 %rd7, %rd4, %rd6;\ncp.async.cg.shared.global [%r4], [%rd7], 16, 16;", allowance{}, 1},
		"from one way of two":        {"mov.u32 %r5, 0;\nsetp.eq.s32 %p4, %r2, 0;\n@%p4 bra $L1;\nmov.u32 %r5, %r1;\n$L1:\nsetp.eq.s32 %p4, %r5, 0;\n@%p4 bra $L2;", allowance{}, 1},
		"by matrix loads":            {"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];\nsetp.eq.s32 %p4, %r8, 0;\n@%p4 bra $L2;", allowance{}, 1},
		"atomic":                     {"atom.shared.add.u32 %r5, [%rd9], 1;\nsetp.eq.s32 %p4, %r5, 0;\n@%p4 bra $L2;", allowance{}, 1},
		"status":                     {"st.global.u32 [%rd3], %r1;", allowance{}, 1},
		"a vote allowed":             {"@%p2 bra $L2;", allowance{votes: []int{0}}, 0},
		"another vote":               {"@%p2 bra $L2;\n@%p3 bra $L2;", allowance{votes: []int{0}}, 1},
		"a branch allowed":           {"@%p1 bra $L2;", allowance{branches: 1}, 0},
		"a store allowed":            {"st.global.u32 [%rd3], %r1;", allowance{stores: 1}, 0},
		"a vote not needed":          {"", allowance{votes: []int{0}}, 1},
		"a second vote not needed":   {"@%p2 bra $L2;", allowance{votes: []int{0, 1}}, 1},
		"a branch not needed":        {"", allowance{branches: 1}, 1},
		"a store not needed":         {"", allowance{stores: 1}, 1},
		"predication is no branch":   {"@%p1 st.shared.u32 [%r4], %r2;", allowance{branches: 1}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			functions := ptxFunctions(fmt.Sprintf(frame, c.code))
			if len(functions) != 1 {
				t.Fatalf("found %d functions", len(functions))
			}
			if got := c.allow.complaints(functions[0], []string{"secrets", "index", "status"}); len(got) != c.want {
				t.Errorf("complaints %q, want %d", got, c.want)
			}
		})
	}
}

// In the kernels that compare ciphertexts, a branch planted on the outcome is found.
func TestKEMConstantTimeFindsComparison(t *testing.T) {
	text, err := kernels.Module{N: 761, Multiplication: kernels.MMA}.PTX()
	if err != nil {
		t.Fatal(err)
	}
	parameters := kernelParameters(t)
	planted := 0
	for _, f := range ptxFunctions(string(text)) {
		kernel := strings.TrimSuffix(f.name, "_761")
		if kernel != "decaps_select_mma" && kernel != "decaps_one" {
			continue
		}
		last := -1 // the vote on the difference
		for i, line := range f.code {
			if strings.HasPrefix(line, "vote.") {
				last = i
			}
		}
		outcome, _ := ptxNames(f.code[last])
		f.code = slices.Insert(slices.Clone(f.code), last+1, "@"+outcome[0]+" bra $planted")
		for label, at := range f.labels {
			if at > last {
				f.labels[label]++
			}
		}
		f.labels["$planted"] = last + 2
		complaints := allowances[kernel].complaints(f, parameters[kernel])
		if len(complaints) != 1 || !strings.Contains(complaints[0], "bra $planted") {
			t.Errorf("%s: complaints %q", f.name, complaints)
		}
		planted++
	}
	if planted != 2 {
		t.Errorf("planted %d branches", planted)
	}
}

// publicMemoryOf says of an entry's parameters and variables whether they are, or point to, memory with nothing secret in it: index and
// status by their names in the sources, and decaps_open's counter of operations, `given` (its mangled name has the length before it).
func publicMemoryOf(entry string, parameters []string) func(string) bool {
	return func(name string) bool {
		if position, ok := strings.CutPrefix(name, entry+"_param_"); ok {
			i, err := strconv.Atoi(position)
			return err == nil && i < len(parameters) && (parameters[i] == "index" || parameters[i] == "status")
		}
		return strings.Contains(name, "decaps_open") && strings.HasSuffix(name, "E5given")
	}
}

var (
	kernelDefinition = regexp.MustCompile(`(?m)^(ENTRY|PRODUCT)_KERNEL\((?:.*?, )?([a-z]\w+), \(([^()]*)\)`)
	parameterGroup   = regexp.MustCompile(`(?m)^#define ([A-Z]+) (const .*|uint.*)$`)
)

// kernelParameters returns the names of each kernel's parameters, by the sources.
func kernelParameters(t *testing.T) map[string][]string {
	t.Helper()
	source := ""
	for _, file := range []string{"entry.cuh", "entries.cuh", "products.cuh"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	groups := map[string]string{}
	for _, m := range parameterGroup.FindAllStringSubmatch(source, -1) {
		groups[m[1]] = m[2]
	}
	parameters := map[string][]string{}
	for _, m := range kernelDefinition.FindAllStringSubmatch(source, -1) {
		var names []string
		for _, parameter := range strings.Split(m[3], ", ") {
			if group, ok := groups[parameter]; ok {
				parameter = group
			}
			for _, declaration := range strings.Split(parameter, ", ") {
				names = append(names, declaration[strings.LastIndexAny(declaration, " *")+1:])
			}
		}
		if m[1] == "ENTRY" {
			parameters[m[2]] = names
			continue
		}
		for _, multiplication := range kernels.Multiplications() {
			parameters[m[2]+"_"+multiplication.String()] = names
		}
	}
	return parameters
}
