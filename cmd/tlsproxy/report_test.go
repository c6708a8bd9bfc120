package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/report"
)

// noGPU makes this machine one without, whatever it has.
func noGPU(t *testing.T) {
	t.Helper()
	t.Setenv("CTRUTLS_LIBCUDA", "/no/such/libcuda.so.1")
}

// TestReport measures everything, shortly, and holds the page and the Markdown against the values that the page carries.
func TestReport(t *testing.T) {
	noGPU(t)
	folder := filepath.Join(t.TempDir(), "new", "report")
	status, out, errText := tlsproxy("report", "-o", folder, "--duration", "50ms", "--note", "busy & <shared>")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	if want := filepath.Join(folder, report.HTMLFile) + "\n" + filepath.Join(folder, report.MarkdownFile) + "\n"; out != want {
		t.Errorf("printed %q", out)
	}
	if !strings.HasPrefix(errText, "Measuring for about 50ms; it ends within 1m1s, by ") || strings.ContainsAny(errText, "\r\x1b") {
		t.Errorf("progress: %q", errText)
	}
	text := readFile(t, filepath.Join(folder, report.HTMLFile))
	page, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(content(find(page, "id", "report-data")[0])), &r); err != nil {
		t.Fatal(err)
	}
	if r.Note != "busy & <shared>" || !strings.Contains(text, "busy &amp; &lt;shared&gt;") || !strings.HasPrefix(r.Program, "tlsproxy ") ||
		r.Command != fmt.Sprintf("tlsproxy report -o %s --duration 50ms --note 'busy & <shared>'", folder) {
		t.Errorf("%q, %q, %q", r.Note, r.Program, r.Command)
	}
	var ids []string
	for _, s := range r.Sections {
		ids = append(ids, s.ID)
		if missing := s.ID == "gpu" || s.ID == "products"; (s.Missing != "") != missing || (len(s.Tables) == 0) != missing {
			t.Errorf("%s: %d tables, %q", s.ID, len(s.Tables), s.Missing)
		}
	}
	if !slices.Equal(ids, report.Parts()) {
		t.Errorf("sections %v", ids)
	}
	markdown := readFile(t, filepath.Join(folder, report.MarkdownFile))
	charts := 0
	for _, s := range r.Sections {
		for _, table := range s.Tables {
			checkTable(t, page, markdown, &s, &table)
			charts += len(table.Charts)
		}
	}
	checkTags(t, text)
	checkPage(t, page, charts)
	checkFolder(t, folder, markdown)
}

// checkTable computes a table's numbers from the values, and looks for them in its rows on the page and in the Markdown.
func checkTable(t *testing.T, page *html.Node, markdown string, s *report.Section, table *report.Table) {
	t.Helper()
	if len(table.Rows) == 0 {
		t.Errorf("%s has no rows", table.ID)
	}
	rows := elements(find(page, "id", table.ID)[0], "tr")[1:]
	if len(rows) != len(table.Rows) {
		t.Fatalf("%s: %d rows on the page, %d of values", table.ID, len(rows), len(table.Rows))
	}
	for i, row := range table.Rows {
		var cells []string
		for _, cell := range append(elements(rows[i], "th"), elements(rows[i], "td")...) {
			cells = append(cells, strings.TrimSpace(strings.Split(content(cell), " ")[0]))
			if len(cells) <= len(table.Labels) {
				cells[len(cells)-1] = content(cell)
			}
		}
		want := append(slices.Clone(row.Labels), numbers(t, s, table, &row)...)
		if !slices.Equal(cells, want) {
			t.Errorf("%s, %s:\n%q\nfrom the values\n%q", table.ID, row.ID, cells, want)
		}
		line := "| " + strings.Join(row.Labels, " | ") + " |"
		for _, l := range strings.Split(markdown, "\n") {
			if strings.HasPrefix(l, line) && strings.Count(l, " | ") == len(want)-1 && slices.Equal(medians(l), want) {
				line = ""
			}
		}
		if line != "" {
			t.Errorf("the Markdown has no line of %q", want)
		}
	}
}

// medians are the cells of a line of Markdown without their spreads.
func medians(line string) []string {
	cells := strings.Split(strings.Trim(line, "| "), " | ")
	for i := range cells {
		before, _, spread := strings.Cut(cells[i], " (")
		if spread && strings.Contains(cells[i], " to ") {
			cells[i] = before
		}
	}
	return cells
}

// numbers are what a row has to show: medians, and medians of ratios of the same round.
func numbers(t *testing.T, s *report.Section, table *report.Table, row *report.Row) []string {
	t.Helper()
	var all []string
	for m, metric := range table.Metrics {
		if m >= len(row.Values) || len(row.Values[m]) == 0 {
			t.Errorf("%s, %s: no value of %s", table.ID, row.ID, metric.Name)
			continue
		}
		all = append(all, shown(row.Values[m]))
		if !metric.Ratio {
			continue
		}
		for _, base := range row.Bases {
			of := rowOf(t, s, base)
			var ratios []float64
			for round, v := range row.Values[m] {
				ratios = append(ratios, v/of.Values[m][round])
			}
			all = append(all, shown(ratios))
		}
	}
	return all
}

func rowOf(t *testing.T, s *report.Section, id string) *report.Row {
	t.Helper()
	var found []*report.Row
	for _, table := range s.Tables {
		for i := range table.Rows {
			if table.Rows[i].ID == id {
				found = append(found, &table.Rows[i])
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d rows are called %q", s.ID, len(found), id)
	}
	return found[0]
}

// shown is the median with three digits that count, and whole numbers as they are.
func shown(values []float64) string {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := (sorted[(n-1)/2] + sorted[n/2]) / 2
	rounded, _ := strconv.ParseFloat(fmt.Sprintf("%.2e", median), 64) // digits
	switch {
	case rounded >= 100:
		text := fmt.Sprintf("%.0f", median)
		for at := len(text) - 3; at > 0; at -= 3 {
			text = text[:at] + "," + text[at:]
		}
		return text
	case median == math.Trunc(median):
		return fmt.Sprint(median)
	}
	digits := 0
	for v := rounded; v < 100*(1-1e-9); v *= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f", digits, median)
}

// checkTags: every element is closed in its place.
func checkTags(t *testing.T, text string) {
	t.Helper()
	void := []string{"meta", "br"}
	var open []string
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF || len(open) > 0 {
				t.Errorf("%v, %v are open", z.Err(), open)
			}
			return
		case html.StartTagToken:
			if name, _ := z.TagName(); !slices.Contains(void, string(name)) {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				t.Fatalf("</%s> where %v are open", name, open)
			}
			open = open[:len(open)-1]
		}
	}
}

// checkPage: nothing comes from elsewhere, every drawing has a title, every table heads and rows that say what they are.
func checkPage(t *testing.T, page *html.Node, charts int) {
	t.Helper()
	for n := range page.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"link", "img", "iframe", "object", "embed"}, n.Data) {
			t.Errorf("a page that needs nothing has <%s>", n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") || strings.Contains(a.Val, "url(") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
			if a.Key == "aria-labelledby" {
				for _, id := range strings.Fields(a.Val) {
					if len(find(page, "id", id)) != 1 {
						t.Errorf("%d elements are called %s", len(find(page, "id", id)), id)
					}
				}
			}
		}
		if n.Data == "style" && (strings.Contains(content(n), "url(") || strings.Contains(content(n), "@import")) {
			t.Error("a style sheet from elsewhere")
		}
	}
	drawings := elements(page, "svg")
	if len(drawings) != charts || charts < 3 {
		t.Errorf("%d drawings of %d", len(drawings), charts)
	}
	for _, svg := range drawings {
		if titles := elements(svg, "title"); len(titles) != 1 || content(titles[0]) == "" || len(elements(svg, "desc")) != 1 {
			t.Errorf("a drawing without a title or description: %v", svg.Attr)
		}
	}
	for _, table := range elements(page, "table") {
		for _, row := range elements(table, "tr") {
			if heads := elements(row, "th"); len(heads) == 0 || len(find(heads[0], "scope", "")) == 0 {
				t.Error("a row without a head")
			}
		}
	}
}

// checkFolder: what the Markdown shows is there, and nothing that was under way.
func checkFolder(t *testing.T, folder, markdown string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != report.HTMLFile && name != report.MarkdownFile && !strings.Contains(markdown, "]("+name+")") {
			t.Errorf("%s is left over", name)
		}
	}
	if len(entries) != strings.Count(markdown, "![")+2 {
		t.Errorf("%d files, %d drawings in the Markdown", len(entries), strings.Count(markdown, "!["))
	}
}

// find returns the elements that have an attribute of a value, or of any if it is empty.
func find(n *html.Node, key, value string) []*html.Node {
	var all []*html.Node
	for d := range withSelf(n) {
		for _, a := range d.Attr {
			if a.Key == key && (value == "" || a.Val == value) {
				all = append(all, d)
			}
		}
	}
	return all
}

func withSelf(n *html.Node) func(func(*html.Node) bool) {
	return func(yield func(*html.Node) bool) {
		if !yield(n) {
			return
		}
		for d := range n.Descendants() {
			if !yield(d) {
				return
			}
		}
	}
}

// elements returns those of a name beneath n.
func elements(n *html.Node, name string) []*html.Node {
	var all []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			all = append(all, d)
		}
	}
	return all
}

// content is the text beneath n.
func content(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReportWithFailure: a measurement that fails is a row of the report, which is written all the same, and the status tells.
func TestReportWithFailure(t *testing.T) {
	noGPU(t)
	t.Setenv(brokenClient, "1")
	folder := t.TempDir()
	status, _, errText := tlsproxy("report", "-o", folder, "--duration", "10ms", "--only", "batch,handshake")
	if status != exitFailure || !strings.Contains(errText, "report: not everything worked; the report says what:\nhandshake: cpu: 1 at once: demo: the load client broke off") {
		t.Errorf("status %d: %s", status, errText)
	}
	text := readFile(t, filepath.Join(folder, report.HTMLFile))
	if !strings.Contains(text, `colspan="6">failed: 1 at once: demo: the load client broke off`) {
		t.Error("the page does not say what failed")
	}
	if markdown := readFile(t, filepath.Join(folder, report.MarkdownFile)); !strings.Contains(markdown, "| cpu |  |  | failed: 1 at once: demo: the load client broke off") || !strings.Contains(markdown, "| Encaps | 4 | ") {
		t.Error("the Markdown does not say what failed, or lacks what did not")
	}
}

// TestReportInterrupted writes nothing, and says so.
func TestReportInterrupted(t *testing.T) {
	noGPU(t)
	ctx, stop := context.WithCancel(context.Background())
	errOut := &cancelling{stop: stop}
	folder := filepath.Join(t.TempDir(), "report")
	if status := execute(ctx, []string{"report", "-o", folder, "--duration", "1h"}, nil, io.Discard, errOut); status != exitFailure || !strings.Contains(errOut.String(), "tlsproxy: report: interrupted, nothing is written: ") {
		t.Errorf("status %d: %s", status, errOut)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("something is written: %v", err)
	}
}

// cancelling interrupts as soon as anything is printed.
type cancelling struct {
	bytes.Buffer
	stop func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	c.stop()
	return c.Buffer.Write(p)
}

// TestReportRefused: what cannot work is said before anything is measured.
func TestReportRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"is not a folder; name one with --output":                                                    {"-o", filepath.Join(file, "report")},
		"report: a duration of 1ms; possible are 10ms to 6h0m0s":                                     {"--duration", "1ms", "-o", t.TempDir()},
		`--only must be one of "kem","batch","exchange","handshake","gpu","products" but got "kems"`: {"--only", "kems"},
		"report: a note of 2001 bytes; possible are up to 2000":                                      {"--note", strings.Repeat("x", 2001), "-o", t.TempDir()},
	} {
		if status, out, errText := tlsproxy(append([]string{"report"}, args...)...); status == 0 || out != "" || !strings.Contains(errText, want) {
			t.Errorf("%v: status %d, %q, want %q", args, status, errText, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{"": "''", "docs/report-1": "docs/report-1", "two words": "'two words'", "it's": `'it'\''s'`, "$HOME": "'$HOME'"} {
		if got := quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
