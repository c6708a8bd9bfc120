package kernels_test

import (
	"regexp"
	"slices"
	"strings"
)

// ptxFunction is the body of an entry or function, one instruction a string, without declarations.
type ptxFunction struct {
	name   string
	entry  bool
	code   []string
	labels map[string]int // the instruction that follows
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
		f := ptxFunction{name: text[start[4]:start[5]], entry: text[start[2]:start[3]] == "entry", labels: map[string]int{}}
		end := strings.Index(rest, "\n}")
		for _, statement := range strings.Split(rest[open+1:end], ";") {
			for line := range strings.Lines(statement) { // labels and braces stand in lines of their own
				line, _, _ = strings.Cut(line, "//")
				line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "{ "))
				if label, ok := strings.CutSuffix(line, ":"); ok {
					f.labels[label] = len(f.code)
					continue
				}
				if line == "" || line == "{" || line == "}" || strings.HasPrefix(line, ".") {
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

// taint is what is known of a value: whether it is secret, and which memory it can be an address in.
type taint uint8

const (
	secretValue  taint = 1 << iota
	publicMemory       // memory that holds nothing secret
	otherMemory
)

// publicFacts are what a function's analysis takes for public.
type publicFacts struct {
	memory func(name string) bool // whether the parameter or variable of this name is, or points to, memory with nothing secret in it
	votes  []int                  // which of the function's votes, counted from 0 in the text's order
}

// ptxInstruction is an instruction of which registers have been numbered.
type ptxInstruction struct {
	line, op, name   string
	predicate        int   // -1 without one
	results, sources []int // registers; sources are what the results depend on
	addresses        [][]int
	symbols          []string // named where addresses or sources are
	target           string
	vote             int // its number, or -1
}

var (
	ptxStatement = regexp.MustCompile(`^(?:@!?(%p\d+)\s+)?([a-z][\w.:]*)\s*(.*)$`)
	ptxAddress   = regexp.MustCompile(`\[([^\]]*)\]`)
)

// carryFlag is the number of the register that instructions with .cc write.
const carryFlag = 0

// analysis follows values through a function.
type analysis struct {
	function     ptxFunction
	public       publicFacts
	instructions []ptxInstruction
	registers    int
	found        []string
}

// secretDependencies describes every instruction whose timing or address depends on a secret, and every store of a secret to memory
// that is taken for public. What is loaded from memory that is not public counts as secret, and so do a function's parameters and
// results; an entry's parameters do not, which are addresses and sizes, nor what lies in constant memory. Along each way
// through the function, a register holds what was last written to it.
func (f ptxFunction) secretDependencies(public publicFacts) []string {
	if public.memory == nil {
		public.memory = func(string) bool { return false }
	}
	a := &analysis{function: f, public: public}
	a.parse()
	a.follow()
	return a.found
}

// parse numbers registers and takes the instructions apart.
func (a *analysis) parse() {
	numbers := map[string]int{}
	number := func(names []string) []int {
		var list []int
		for _, name := range names {
			if _, ok := numbers[name]; !ok {
				numbers[name] = len(numbers) + 1 // after the carry
			}
			list = append(list, numbers[name])
		}
		return list
	}
	votes := 0
	for _, line := range a.function.code {
		i := ptxInstruction{line: line, predicate: -1, vote: -1}
		m := ptxStatement.FindStringSubmatch(line)
		if m == nil {
			a.found = append(a.found, "not understood: "+line)
			a.instructions = append(a.instructions, i)
			continue
		}
		if m[1] != "" {
			i.predicate = number(m[1:2])[0]
		}
		i.op = m[2]
		i.name, _, _ = strings.Cut(i.op, ".")
		operands := m[3]
		if strings.Contains(operands, "[") {
			for _, address := range ptxAddress.FindAllString(operands, -1) {
				registers, _ := ptxNames(address)
				i.addresses = append(i.addresses, number(registers))
			}
		}
		switch i.name {
		case "bra":
			i.target = strings.TrimSpace(operands)
		case "vote":
			i.vote, votes = votes, votes+1
		case "brx":
			a.found = append(a.found, "not understood: "+line)
		}
		results, sources := ptxOperands(operands)
		if strings.HasPrefix(operands, "[") || i.name == "bar" || i.name == "call" { // a store: what its first operand names is read
			results, sources = nil, append(results, sources...)
		}
		i.results, i.sources = number(results), number(sources)
		if i.name != "bra" && i.name != "call" {
			_, i.symbols = ptxNames(operands)
		}
		if strings.HasPrefix(i.name, "addc") || strings.HasPrefix(i.name, "subc") || strings.HasPrefix(i.name, "madc") {
			i.sources = append(i.sources, carryFlag)
		}
		if strings.Contains(i.op, ".cc.") {
			i.results = append(i.results, carryFlag)
		}
		a.instructions = append(a.instructions, i)
	}
	a.registers = len(numbers) + 1
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
	results, _ = ptxNames(operands[:end])
	sources, _ = ptxNames(operands[end:])
	return results, sources
}

// ptxNames returns the registers that operands name, but for special ones as %tid.x, and the symbols. (Regular expressions for them took
// most of the time under the race detector.)
func ptxNames(operands string) (registers, symbols []string) {
	for i := 0; i < len(operands); {
		end := i + 1
		for end < len(operands) && ptxWord(operands[end]) {
			end++
		}
		word := operands[i:end]
		switch c := operands[i]; {
		case c == '%':
			if last := operands[end-1]; '0' <= last && last <= '9' {
				registers = append(registers, word)
			}
		case '0' <= c && c <= '9', c == '.': // a number; what follows a special register's or vector's name
		case ptxWord(c):
			symbols = append(symbols, word)
		default:
			end = i + 1
		}
		i = end
	}
	return registers, symbols
}

func ptxWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$'
}

// follow goes through the function's blocks, from label or branch to the next, until nothing more becomes known at the beginning of any, and then
// once more to look for violations.
func (a *analysis) follow() {
	if len(a.instructions) == 0 {
		return
	}
	begins := map[int]bool{0: true}
	for _, at := range a.function.labels {
		begins[at] = true
	}
	for i, instruction := range a.instructions {
		switch instruction.name {
		case "bra", "ret", "exit", "trap":
			begins[i+1] = true
		}
	}
	known := map[int][]taint{0: make([]taint, a.registers)}
	merge := func(at int, state []taint) (changed bool) {
		to, ok := known[at]
		if !ok {
			known[at] = slices.Clone(state)
			return true
		}
		for r, t := range state {
			if to[r]|t != to[r] {
				to[r] |= t
				changed = true
			}
		}
		return changed
	}
	for pending := []int{0}; len(pending) > 0; {
		begin := pending[0]
		pending = pending[1:]
		state := slices.Clone(known[begin])
		for _, next := range a.block(begin, begins, state, false) {
			if next < len(a.instructions) && merge(next, state) && !slices.Contains(pending, next) {
				pending = append(pending, next)
			}
		}
	}
	for begin := range a.instructions {
		if !begins[begin] {
			continue
		}
		if state, ok := known[begin]; ok {
			a.block(begin, begins, state, true)
		} else {
			a.found = append(a.found, "never reached: "+a.instructions[begin].line)
		}
	}
}

// block goes through one block and returns where the function can go on. It notes violations if report is set.
func (a *analysis) block(begin int, begins map[int]bool, state []taint, report bool) []int {
	for at := begin; ; at++ {
		i := &a.instructions[at]
		if report {
			a.check(i, state)
		}
		a.step(i, state)
		switch {
		case i.name == "bra":
			target, ok := a.function.labels[i.target]
			if !ok && report {
				a.found = append(a.found, "no such label: "+i.line)
			}
			if !ok {
				target = len(a.instructions)
			}
			if i.predicate < 0 {
				return []int{target}
			}
			return []int{at + 1, target}
		case (i.name == "ret" || i.name == "exit" || i.name == "trap") && i.predicate < 0:
			return nil
		case at+1 == len(a.instructions) || begins[at+1]:
			return []int{at + 1}
		}
	}
}

// step makes in state the results of an instruction.
func (a *analysis) step(i *ptxInstruction, state []taint) {
	if len(i.results) == 0 {
		return
	}
	value := taint(0)
	for _, r := range i.sources {
		value |= state[r]
	}
	switch i.name {
	case "ld", "ldu", "ldmatrix", "atom":
		value = a.load(i, state)
	case "vote":
		if slices.Contains(a.public.votes, i.vote) {
			value = 0
		}
	default:
		for _, symbol := range i.symbols {
			value |= a.memory(symbol)
		}
	}
	for _, r := range i.results {
		if i.predicate >= 0 { // or what was there
			state[r] |= value | state[i.predicate]
		} else {
			state[r] = value
		}
	}
}

// load is what a load gives.
func (a *analysis) load(i *ptxInstruction, state []taint) taint {
	switch {
	case strings.HasPrefix(i.op, "ld.const"):
		return 0
	case strings.HasPrefix(i.op, "ld.param"):
		if !a.function.entry || strings.Contains(i.line, "[retval") {
			return secretValue
		}
		if strings.HasPrefix(i.op, "ld.param.u64") {
			return a.memory(i.symbols[0])
		}
		return 0
	case a.isPublic(i, state):
		return 0
	}
	return secretValue
}

// isPublic says whether all that an instruction's addresses are derived from is public memory.
func (a *analysis) isPublic(i *ptxInstruction, state []taint) bool {
	into := taint(0)
	for _, registers := range i.addresses {
		for _, r := range registers {
			into |= state[r]
		}
	}
	for _, symbol := range i.symbols {
		into |= a.memory(symbol)
	}
	return into&(publicMemory|otherMemory) == publicMemory
}

func (a *analysis) memory(name string) taint {
	if a.public.memory(name) {
		return publicMemory
	}
	return otherMemory
}

// check notes in what an instruction depends on a secret.
func (a *analysis) check(i *ptxInstruction, state []taint) {
	isSecret := func(registers []int) bool {
		return slices.ContainsFunc(registers, func(r int) bool { return state[r]&secretValue != 0 })
	}
	if i.predicate >= 0 && state[i.predicate]&secretValue != 0 {
		a.found = append(a.found, "carried out or not by a secret: "+i.line)
	}
	if slices.ContainsFunc(i.addresses, isSecret) {
		a.found = append(a.found, "a secret address: "+i.line)
	}
	switch i.name {
	case "div", "rem":
		if isSecret(i.sources) {
			a.found = append(a.found, "time depends on a secret: "+i.line)
		}
	case "st", "red", "atom":
		if isSecret(i.sources) && a.isPublic(i, state) {
			a.found = append(a.found, "a secret into public memory: "+i.line)
		}
	}
}
