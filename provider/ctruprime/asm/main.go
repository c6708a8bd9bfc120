// Command asm writes the assembly of package vec and its Go declarations.
// Run it by go generate there.
package main

import (
	"flag"
	"log"
	"sort"
	"strings"

	. "github.com/mmcloughlin/avo/build"
)

// groups are the files that can be generated.
var groups = map[string]func(){
	"keccak":  keccak,
	"ring":    ring,
	"lift":    lift,
	"coding":  coding,
	"decode":  decode,
	"inverse": inversion,
}

func main() {
	// avo registers -out, -stubs and -pkg.
	group := flag.String("group", "", "which file to write: "+strings.Join(names(), ", "))
	flag.Parse()
	write, ok := groups[*group]
	if !ok {
		log.Fatalf("asm: no group %q: choose one of %s", *group, strings.Join(names(), ", "))
	}
	ConstraintExpr("!noasm")
	write()
	Generate()
}

func names() []string {
	var all []string
	for name := range groups {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

// routine starts a function that neither lets its arguments escape nor needs
// stack.
func routine(name, signature string, doc ...string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc...)
}

// finish ends a routine. No upper half of a vector register stays in use: Go's
// own SSE code would run many times slower.
func finish() {
	VZEROUPPER()
	RET()
}
