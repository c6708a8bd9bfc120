package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/internal/bench/chart"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is the report as both its forms show it.
type page struct {
	Report   *Report
	Title    string
	When     string
	Note     string
	Method   string
	Failures []string
	Findings []string
	Style    template.CSS
	Sections []pageSection
}

type pageSection struct {
	*Section
	Tables []pageTable
}

type pageTable struct {
	*Table
	Heads    []string
	Rows     []pageRow
	Drawings []pageDrawing
}

type pageRow struct {
	Labels  []string
	Cells   []cell
	Error   string
	Columns int
}

type pageDrawing struct {
	ID      string
	Title   string
	SVG     template.HTML // for the page
	drawing chart.Drawing // for a file
}

const method = "Figures are medians over rounds, with the quartiles between which the middle half of the rounds lies. Ratios are taken round by round, so that what else the machine did met both sides alike: they compare with those of other machines, times do not. Less is better for times, more for rates."

// layOut makes all numbers text.
func (r *Report) layOut() *page {
	p := &page{Report: r, Note: r.Note, Method: method, Failures: r.Failures(), Findings: r.findings(), Style: template.CSS(chart.Style),
		Title: "tlsproxy report, " + r.Machine + ", " + r.Began.Format(time.DateOnly), When: fmt.Sprintf("%s, began %s, took %v", r.Program, r.Began.Format(time.RFC3339), r.Took.Round(time.Second))}
	for i := range r.Sections {
		s := &r.Sections[i]
		section := pageSection{Section: s}
		for j := range s.Tables {
			section.Tables = append(section.Tables, s.layOut(&s.Tables[j]))
		}
		p.Sections = append(p.Sections, section)
	}
	return p
}

func (s *Section) layOut(t *Table) pageTable {
	laid := pageTable{Table: t, Heads: t.heads()}
	for i := range t.Rows {
		r := &t.Rows[i]
		laid.Rows = append(laid.Rows, pageRow{r.Labels, s.cells(t, r), r.Error, len(laid.Heads)})
	}
	for i := range t.Charts {
		c := &t.Charts[i]
		if d, ok := s.drawing(t, c); ok {
			laid.Drawings = append(laid.Drawings, pageDrawing{c.ID, c.Title, template.HTML(chart.SVG(d, "chart-"+c.ID)), d})
		}
	}
	return laid
}

// WriteHTML writes the page.
func (r *Report) WriteHTML(w io.Writer) error { return pageTemplate.Execute(w, r.layOut()) }

// WriteMarkdown writes the same for where Markdown is read. It refers to the files of Drawings.
func (r *Report) WriteMarkdown(w io.Writer) error {
	p := r.layOut()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", plain(p.Title), plain(p.When))
	if p.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", plain(p.Note))
	}
	fmt.Fprintf(&b, "    %s\n\n", oneLine(r.Command))
	if len(p.Failures) > 0 {
		b.WriteString("**Not everything was measured:**\n\n")
	}
	list(&b, p.Failures)
	list(&b, p.Findings)
	b.WriteString("## Machine and versions\n\n| | |\n|---|---|\n")
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "| %s | %s |\n", plain(f.Name), plain(f.Value))
	}
	fmt.Fprintf(&b, "\n%s\n", plain(p.Method))
	for _, s := range p.Sections {
		s.markdown(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func list(b *bytes.Buffer, items []string) {
	for _, item := range items {
		fmt.Fprintf(b, "- %s\n", plain(item))
	}
	if len(items) > 0 {
		b.WriteString("\n")
	}
}

func (s *pageSection) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## %s\n\n", plain(s.Title))
	for _, paragraph := range s.About {
		fmt.Fprintf(b, "%s\n\n", plain(paragraph))
	}
	fmt.Fprintf(b, "    %s\n", oneLine(s.Command))
	if s.Missing != "" {
		fmt.Fprintf(b, "\n%s\n", plain(s.Missing))
	}
	if s.Error != "" {
		fmt.Fprintf(b, "\n**Not measured to the end:** %s\n", plain(s.Error))
	}
	for _, t := range s.Tables {
		t.markdown(b)
	}
}

func (t *pageTable) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n### %s\n\n", plain(t.Title))
	for _, d := range t.Drawings {
		fmt.Fprintf(b, "![%s](%s)\n\n", plain(d.Title), d.file())
	}
	for _, head := range append(append([]string(nil), t.Labels...), t.Heads...) {
		fmt.Fprintf(b, "| %s ", plain(head))
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(t.Labels)) + strings.Repeat("|---:", len(t.Heads)) + "|\n")
	for _, r := range t.Rows {
		for _, label := range r.Labels {
			fmt.Fprintf(b, "| %s ", plain(label))
		}
		if r.Error != "" {
			fmt.Fprintf(b, "| failed: %s %s|\n", plain(r.Error), strings.Repeat("| ", r.Columns-1))
			continue
		}
		for _, c := range r.Cells {
			b.WriteString("| " + c.Text)
			if c.Spread != "" {
				b.WriteString(" (" + c.Spread + ")")
			}
			b.WriteString(" ")
		}
		b.WriteString("|\n")
	}
}

// file is what the drawing is called beside the Markdown.
func (d *pageDrawing) file() string { return d.ID + ".svg" }

// plain is text that Markdown takes for nothing else.
func plain(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`).Replace(oneLine(s))
}

// oneLine is text without line breaks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
