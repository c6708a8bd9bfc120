package manual

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Texts are the parts of tlsproxy(1) that the command line's model does not hold.
type Texts struct {
	Description string // paragraphs
	ExitStatus  []Entry
	Signals     []Entry
	Environment []Entry
	Examples    []Entry
	SeeAlso     string
}

// Entry is a name and what it is.
type Entry struct{ Name, Text string }

// Command writes tlsproxy(1).
func Command(app *kong.Application, texts Texts) []byte {
	p := newPage(app.Name, 1, strings.TrimSuffix(lowerFirst(app.Help), "."))
	p.section("SYNOPSIS")
	commands := app.Leaves(true)
	for i, c := range commands {
		if i > 0 {
			p.WriteString(".br\n")
		}
		p.lines(app.Name + " " + strings.TrimSpace(c.Summary()))
	}
	p.section("DESCRIPTION")
	p.text(texts.Description)
	p.section("COMMANDS")
	for _, c := range commands {
		p.command(app.Name, c)
	}
	p.section("OPTIONS OF ALL COMMANDS")
	for _, f := range app.Flags {
		p.term(flagName(f), f.Help)
	}
	for _, s := range []struct {
		title   string
		entries []Entry
	}{{"EXIT STATUS", texts.ExitStatus}, {"SIGNALS", texts.Signals}, {"ENVIRONMENT", texts.Environment}} {
		p.section(s.title)
		for _, e := range s.entries {
			p.term(e.Name, e.Text)
		}
	}
	p.section("EXAMPLES")
	for _, e := range texts.Examples {
		p.text(e.Text)
		p.verbatim(e.Name)
	}
	p.section("SEE ALSO")
	p.text(texts.SeeAlso)
	return p.Bytes()
}

// command describes one, its arguments and its flags.
func (p *page) command(program string, c *kong.Node) {
	p.subsection(program + " " + c.Name)
	p.text(c.Help)
	for _, a := range c.Positional {
		p.term(a.Summary(), a.Help)
	}
	for _, f := range c.Flags {
		if !f.Hidden {
			p.term(flagName(f), f.Help)
		}
	}
}

// flagName is how a flag is written, with its short form first.
func flagName(f *kong.Flag) string {
	name := "--" + f.Name
	if !f.IsBool() {
		name += "=" + f.FormatPlaceHolder()
	}
	if f.Short != 0 {
		return fmt.Sprintf("-%c, %s", f.Short, name)
	}
	return name
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
