package manual

import (
	"bytes"
	"fmt"
	"strings"
)

// page is a manual page in the making.
type page struct{ bytes.Buffer }

// newPage begins one: its name, its section of the manual, and what the program is.
func newPage(name string, section int, summary string) *page {
	p := new(page)
	fmt.Fprintf(p, ".TH %s %d \"\" \"ctrutls\" \"tlsproxy manual\"\n", strings.ToUpper(name), section)
	p.section("NAME")
	p.text(name + " - " + summary)
	return p
}

func (p *page) section(title string)    { fmt.Fprintf(p, ".SH %s\n", title) }
func (p *page) subsection(title string) { fmt.Fprintf(p, ".SS \"%s\"\n", escaped(title)) }

// text writes paragraphs, between which there are blank lines. One that is indented
// stays as it is.
func (p *page) text(s string) {
	for i, paragraph := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			p.verbatim(paragraph)
			continue
		}
		if i > 0 {
			p.WriteString(".PP\n")
		}
		p.lines(paragraph)
	}
}

// lines writes each line as one of text: what begins like a macro is none.
func (p *page) lines(s string) {
	if s == "" {
		return
	}
	for line := range strings.SplitSeq(s, "\n") {
		line = escaped(strings.TrimSpace(line))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.WriteString(line + "\n")
	}
}

// term writes something in bold, and beneath it what it is.
func (p *page) term(name, s string) {
	fmt.Fprintf(p, ".TP\n.B \"%s\"\n", escaped(name))
	p.lines(s)
}

// verbatim writes lines as they are.
func (p *page) verbatim(s string) {
	p.WriteString(".PP\n.RS 4\n.nf\n")
	p.lines(strings.TrimRight(s, "\n"))
	p.WriteString(".fi\n.RE\n")
}

// escaped is text in which roff finds nothing to interpret.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(s)
}
