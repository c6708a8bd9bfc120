package completion

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Answer is what can stand in place of the last word of a command line.
type Answer struct {
	Candidates []Candidate // none and not Files: anything
	Files      bool        // the names of files
}

// Candidate is a word, and what it means.
type Candidate struct {
	Word string
	Help string // may be empty
}

// Words lists what a flag or an argument can be, beside what its enum tag names; nil:
// anything. Elements of lists, which commas separate, are offered one by one.
type Words func(*kong.Value) []string

// Candidates completes the last of words, which are those of a command line behind the
// program's name; it may be empty. What has been written before it is not checked.
func Candidates(app *kong.Node, words []string, of Words) Answer {
	if len(words) == 0 {
		words = []string{""}
	}
	l := line{node: app, of: of}
	for _, word := range words[:len(words)-1] {
		l.read(word)
	}
	return l.complete(words[len(words)-1])
}

// line is what has been read of a command line.
type line struct {
	node       *kong.Node // the command, the program itself at first
	of         Words
	pending    *kong.Flag // the flag whose value is next; nil: none
	positional int        // arguments that are there
	noFlags    bool       // behind --
}

func (l *line) read(word string) {
	switch flag, value, has := l.flag(word); {
	case word == "=" && l.pending != nil: // bash makes it a word of its own
	case l.pending != nil:
		l.pending = nil
	case word == "--":
		l.noFlags = true
	case flag != nil:
		if !flag.IsBool() && !(has && value != "") {
			l.pending = flag
		}
	case strings.HasPrefix(word, "-") && !l.noFlags: // unknown
	default:
		if child := childNamed(l.node, word); child != nil {
			l.node = child
		} else {
			l.positional++
		}
	}
}

// flag takes a word such as --name, --name=value, -n or -nvalue apart. It is nil if no
// flag is so called.
func (l *line) flag(word string) (flag *kong.Flag, value string, has bool) {
	if l.noFlags || !strings.HasPrefix(word, "-") {
		return nil, "", false
	}
	name, value, has := strings.Cut(word, "=")
	for _, f := range l.flags() {
		switch short := "-" + string(f.Short); {
		case name == "--"+f.Name:
			return f, value, has
		case f.Short != 0 && strings.HasPrefix(word, short) && !strings.HasPrefix(word, "--"):
			return f, strings.TrimPrefix(word, short), word != short
		}
	}
	return nil, "", false
}

// flags lists those of the command and of the program.
func (l *line) flags() (all []*kong.Flag) {
	for _, group := range l.node.AllFlags(true) {
		all = append(all, group...)
	}
	return all
}

func (l *line) complete(word string) Answer {
	switch flag, value, has := l.flag(word); {
	case l.pending != nil:
		return l.values(l.pending.Value, strings.TrimPrefix(word, "="), "")
	case flag != nil && has && strings.HasPrefix(word, "--"):
		return l.values(flag.Value, value, "--"+flag.Name+"=")
	case strings.HasPrefix(word, "-") && !l.noFlags:
		return beginning(word, l.flagNames())
	case len(l.node.Children) > 0:
		return beginning(word, commandsOf(l.node))
	case l.positional < len(l.node.Positional):
		return l.values(l.node.Positional[l.positional], word, "")
	default:
		return Answer{}
	}
}

// values completes what a flag or an argument is; before stands in front of it in the
// same word.
func (l *line) values(v *kong.Value, word, before string) Answer {
	possible := l.of(v)
	if possible == nil && v.Enum != "" {
		possible = v.EnumSlice()
	}
	if possible == nil {
		return Answer{Files: v.Flag != nil && v.Flag.PlaceHolder == "FILE"}
	}
	if v.IsSlice() {
		at := strings.LastIndexByte(word, ',') + 1
		taken := strings.Split(word[:at], ",")
		possible = slices.DeleteFunc(slices.Clone(possible), func(w string) bool { return slices.Contains(taken, w) })
		before, word = before+word[:at], word[at:]
	}
	a := Answer{}
	for _, w := range possible {
		if strings.HasPrefix(w, word) {
			a.Candidates = append(a.Candidates, Candidate{Word: before + w})
		}
	}
	return a
}

func (l *line) flagNames() (all []Candidate) {
	for _, f := range l.flags() {
		all = append(all, Candidate{"--" + f.Name, f.Help})
	}
	return all
}

func commandsOf(n *kong.Node) (all []Candidate) {
	for _, child := range n.Children {
		if !child.Hidden {
			all = append(all, Candidate{child.Name, child.Help})
		}
	}
	return all
}

func childNamed(n *kong.Node, name string) *kong.Node {
	for _, child := range n.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// beginning keeps the candidates that begin with a word.
func beginning(word string, all []Candidate) Answer {
	return Answer{Candidates: slices.DeleteFunc(all, func(c Candidate) bool { return !strings.HasPrefix(c.Word, word) })}
}
