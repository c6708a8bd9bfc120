package report

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
	"github.com/ctrutls/ctrutls/internal/bench/interleaved"
	"github.com/ctrutls/ctrutls/internal/bench/kem"
)

// The whole report is tested with the program; here is what happens when something in it fails.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("<broken> | on_purpose")

func options() Options { return Options{Program: "p", Duration: 10 * time.Millisecond} }

// aPart is a part with a table whose second row fails.
func aPart(id string) part {
	return part{id: id, title: "Part " + id, weight: 1, missing: always, measure: func(ctx context.Context, m *measurement) error {
		m.section.Tables = []Table{{ID: id, Title: "T", Labels: []string{"what"}, Metrics: timeOf, Bases: []string{"one"},
			Rows:   []Row{{ID: "one", Labels: []string{"one"}, Bases: []string{"one"}, Series: "s", Name: "one"}, {ID: "two", Labels: []string{"two"}, Bases: []string{"one"}, Series: "s", Name: "two"}},
			Charts: []Chart{{ID: id, Kind: Bars, Title: "C", Y: "y", Base: 0}}}}
		return m.timeRows(ctx, []kem.Operation{{Of: "x", Name: "one", Each: 1, Call: func() error { return nil }}, {Of: "x", Name: "two", Each: 1, Call: func() error { return errTest }}})
	}}
}

func failing(id string, measure func(context.Context, *measurement) error) part {
	return part{id: id, title: id, weight: 1, missing: always, measure: measure}
}

// TestFailures: a row, a part and a panic are errors each of their own, and the rest is measured.
func TestFailures(t *testing.T) {
	absent := part{id: "absent", title: "absent", weight: 1000, missing: func(*gpus) string { return "Not measured: there is none." }}
	all := []part{failing("first", func(context.Context, *measurement) error { return errTest }), aPart("second"),
		failing("third", func(context.Context, *measurement) error { panic("no") }), absent}
	r, err := run(t.Context(), options(), all, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"first: <broken> | on_purpose", "second: two: interleaved: x, two: <broken> | on_purpose", "third: it panicked: no"}
	if got := r.Failures(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var page, markdown bytes.Buffer
	if err := errors.Join(r.WriteHTML(&page), r.WriteMarkdown(&markdown)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<td class="bad" colspan="2">failed: interleaved: x, two: &lt;broken&gt; | on_purpose</td>`, "Not measured to the end: it panicked: no", "Not measured: there is none.", `role="alert"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, want := range []string{`| two | failed: interleaved: x, two: &lt;broken> \| on\_purpose | |`, "**Not measured to the end:** it panicked: no", "\nNot measured: there is none.\n", "![C](second.svg)", "**Not everything was measured:**"} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("the Markdown lacks %q:\n%s", want, &markdown)
		}
	}
	if strings.Contains(page.String(), "<broken>") {
		t.Error("an error's text is markup of the page")
	}
}

// TestShares: what cannot be measured takes no time of the others.
func TestShares(t *testing.T) {
	var got []time.Duration
	note := func(_ context.Context, m *measurement) error { got = append(got, m.time); return nil }
	light, heavy := failing("a", note), failing("b", note)
	heavy.weight = 3
	absent := part{id: "c", weight: 96, missing: func(*gpus) string { return "none" }}
	o := options()
	o.Duration = 4 * time.Second
	if _, err := run(t.Context(), o, []part{light, heavy, absent}, time.Minute); err != nil || !slices.Equal(got, []time.Duration{time.Second, 3 * time.Second}) {
		t.Errorf("%v, %v", got, err)
	}
	if o.Bound() != time.Minute+6*time.Second {
		t.Errorf("bound %v", o.Bound())
	}
}

// TestOnly measures what was asked for.
func TestOnly(t *testing.T) {
	o := options()
	o.Parts = []string{"batch"}
	r, err := Run(t.Context(), o)
	if err != nil || len(r.Sections) != 1 || r.Sections[0].ID != "batch" || len(r.Failures()) > 0 {
		t.Errorf("%v, %+v", err, r)
	}
	o.Parts = []string{"batches"}
	if _, err := Run(t.Context(), o); err == nil || err.Error() != `report: there is no part "batches"; there are kem, batch, exchange, handshake, gpu, products` {
		t.Error(err)
	}
}

// TestTimeUp: what is not measured by then is an error of the report, which is there all the same.
func TestTimeUp(t *testing.T) {
	wait := failing("slow", func(ctx context.Context, m *measurement) error { <-ctx.Done(); return ctx.Err() })
	r, err := run(t.Context(), options(), []part{wait, aPart("next")}, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"slow: " + errTime.Error(), "next: " + errTime.Error()}
	if got := r.Failures(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop := failing("stop", func(context.Context, *measurement) error { cancel(); return nil })
	if r, err := run(ctx, options(), []part{stop, aPart("next")}, time.Minute); r != nil || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "report: interrupted, nothing is written: ") {
		t.Errorf("%v, %v", r, err)
	}
}

func TestInLine(t *testing.T) {
	if got := inLine(errors.Join(errTest, errors.New(" two\nlines"), errTest)); got != errTest.Error()+"; two; lines" {
		t.Errorf("%q", got)
	}
}

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{7}, Spread{7, 7, 7}},
		{[]float64{4, 2}, Spread{3, 2.5, 3.5}},
		{[]float64{5, 1, 4, 2, 3}, Spread{3, 2, 4}},
	} {
		if got := Summarize(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

// TestRatios are of the same round, as far as both have one.
func TestRatios(t *testing.T) {
	if got := ratios([]float64{2, 6, 9}, []float64{1, 2}); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("%v", got)
	}
	if got := ratios([]float64{1, 2}, []float64{0, 2}); !slices.Equal(got, []float64{1}) {
		t.Errorf("%v", got)
	}
}

// TestFindings: a sentence for what was measured, and none for what was not.
func TestFindings(t *testing.T) {
	section := func(id string, labels []string, values ...float64) Section {
		row := Row{ID: "row", Labels: labels, Values: [][]float64{{values[0]}}, Bases: []string{"base"}, Series: "s"}
		base := Row{ID: "base", Labels: slices.Concat(labels[:1], []string{"", ""}), Values: [][]float64{{values[1]}}}
		return Section{ID: id, Tables: []Table{{Metrics: timeOf, Rows: []Row{row, base}}}}
	}
	r := Report{Sections: []Section{section("kem", []string{"x"}, 1, 2), section("exchange", []string{"16", "G", "E"}, 3, 2), {ID: "exchange"}, section("handshake", []string{"auto", "256", "X25519CTRUPrime761"}, 3, 4),
		section("gpu", []string{"Encaps", hostToHost}, 100, 1), section("products", []string{"65536", tensorCores}, 1, 5)}}
	want := []string{"The server's half of a key exchange with G, by E, takes 1.50 of the processor time of X25519's (16 at once).", "A handshake with X25519CTRUPrime761 costs the server 0.750 of the processor time of one with X25519 (engine auto, 256 at once).",
		"A GPU makes 100 times the Encaps of one core, host to host.", "Products on the Tensor Cores take 0.200 of the time of those by transforms, in batches of 65536."}
	if got := r.findings(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestNoBase: where a base failed, or a row has none, there is no ratio, and no number that is none.
func TestNoBase(t *testing.T) {
	s := Section{Tables: []Table{{Metrics: timeOf, Bases: []string{"a", "b"}, Rows: []Row{
		{ID: "failed", Error: "e"}, {ID: "row", Values: [][]float64{{1, 2}}, Bases: []string{"failed", ""}}, {ID: "bare", Values: [][]float64{{1}}}}}}}
	table := &s.Tables[0]
	if got, want := s.cells(table, &table.Rows[1]), []cell{{"1.50", "1.25 to 1.75"}, {Text: none}, {Text: none}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got, want := s.cells(table, &table.Rows[2]), []cell{{Text: "1"}, {Text: none}, {Text: none}}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestHandshakeRounds: the time is for all samples, which are no shorter than they need to be.
func TestHandshakeRounds(t *testing.T) {
	for budget, want := range map[time.Duration]struct {
		rounds int
		sample time.Duration
	}{
		10 * time.Millisecond: {fewRounds, time.Millisecond},
		10 * time.Second:      {4, 225 * time.Millisecond},
		310 * time.Second:     {mostHandshake, 900 * time.Millisecond},
	} {
		m := measurement{time: budget}
		if rounds, sample := m.handshakeRounds(10); rounds != want.rounds || sample != want.sample {
			t.Errorf("%v: %d rounds of %v", budget, rounds, sample)
		}
	}
}

// TestExchangeRow: a round is a value of each metric, and an error ends the row.
func TestExchangeRow(t *testing.T) {
	var r Row
	r.exchanges(t.Context(), 2, time.Millisecond, func(context.Context) error { return nil })
	if r.Error != "" || len(r.Values) != 4 || len(r.Values[0]) != 1 || r.Values[1][0] <= 0 {
		t.Errorf("%+v", r)
	}
	r.exchanges(t.Context(), 2, time.Hour, func(context.Context) error { return errTest })
	r.exchanges(t.Context(), 2, time.Millisecond, func(context.Context) error { return nil })
	if r.Error != errTest.Error() || r.Values != nil {
		t.Errorf("%+v", r)
	}
}

// TestHandshakeErrors: failed connections, faults and rounds without a handshake each spoil a row.
func TestHandshakeErrors(t *testing.T) {
	good := comparison.Sample{Result: loadgen.Result{Completed: 2, Elapsed: time.Second, Handshake: loadgen.Latency{P50: time.Millisecond, P99: 2 * time.Millisecond}}, ServerCPU: time.Millisecond}
	r := handshakeRow("cpu", 16, "B", "A", []comparison.Sample{good, good})
	if r.ID != "cpu/16/B" || r.Bases[0] != "cpu/16/A" || !slices.EqualFunc(r.Values, [][]float64{{500, 500}, {2, 2}, {1, 1}, {2, 2}}, slices.Equal) {
		t.Errorf("%+v", r)
	}
	for want, spoil := range map[string]func(*comparison.Sample){
		"3 failed, such as: broken":                                func(s *comparison.Sample) { s.Failed, s.Errors = 3, []string{"broken"} },
		"0 failed, such as: counted otherwise":                     func(s *comparison.Sample) { s.Faults = []string{"counted otherwise", "counted otherwise"} },
		"0 failed, such as: no handshake was completed in a round": func(s *comparison.Sample) { s.Completed = 0 },
		"9 failed, such as: a; b; c":                               func(s *comparison.Sample) { s.Failed, s.Errors = 9, []string{"d", "c", "b", "a"} },
	} {
		bad := good
		spoil(&bad)
		if r := handshakeRow("cpu", 16, "B", "A", []comparison.Sample{good, bad}); r.Error != want || r.Values != nil {
			t.Errorf("%q, want %q", r.Error, want)
		}
	}
}

// TestWrite replaces what was there when all is written, and leaves it where something cannot be.
func TestWrite(t *testing.T) {
	r, err := run(t.Context(), options(), []part{aPart("a")}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	old := filepath.Join(folder, HTMLFile)
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(folder); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(old); err != nil || !bytes.HasPrefix(text, []byte("<!DOCTYPE html>")) {
		t.Errorf("%v: %.20s", err, text)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Sections[0].Tables[0].Charts[0].ID = "no/such/folder"
	if err := r.Write(folder); err == nil || !strings.HasPrefix(err.Error(), "report: ") {
		t.Error(err)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("%v: %.20s", err, text)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestCheckFolder(t *testing.T) {
	folder := t.TempDir()
	if err := CheckFolder(filepath.Join(folder, "a", "b")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := CheckFolder("/proc/1"); err == nil || !strings.Contains(err.Error(), "name another folder with --output") {
		t.Error(err)
	}
}

// TestProgress: a bar on a terminal, lines elsewhere, and no bar is left behind.
func TestProgress(t *testing.T) {
	o := options()
	o.Duration = time.Hour
	var lines bytes.Buffer
	p := NewProgress(&lines, false)
	p.begin(&o)
	p.step("one")
	p.step("two")
	p.end()
	if got := strings.Split(lines.String(), "\n"); len(got) != 4 || !strings.HasPrefix(got[0], "Measuring for about 1h0m0s; it ends within 1h31m0s, by ") || !strings.HasSuffix(got[1], "s  one") || !strings.HasSuffix(got[2], "s  two") {
		t.Errorf("%q", got)
	}
	drawn := make(chan string, 100)
	p = NewProgress(sending(drawn), true)
	p.begin(&o)
	<-drawn // how long it takes
	p.step("one")
	got := <-drawn
	for !strings.HasSuffix(got, " % one") {
		got = <-drawn
	}
	if !strings.HasPrefix(got, clearLine+"[") {
		t.Errorf("%q", got)
	}
	p.end()
	last := ""
	for len(drawn) > 0 {
		last = <-drawn
	}
	if last != clearLine {
		t.Errorf("%q", last)
	}
	var silent *Progress
	silent.begin(&o)
	silent.step("one")
	silent.end()
}

type sending chan string

func (s sending) Write(p []byte) (int, error) { s <- string(p); return len(p), nil }

func TestBar(t *testing.T) {
	for passed, want := range map[time.Duration]string{0: "[........................]  0 %", 30 * time.Second: "[############............] 50 %", time.Hour: "[#######################.] 99 %"} {
		if got := bar(passed, time.Minute); got != want {
			t.Errorf("%v: %s", passed, got)
		}
	}
}

// TestSet takes over nanoseconds as microseconds.
func TestSet(t *testing.T) {
	var r Row
	r.set(interleaved.Result{Times: []float64{1500, 2000}})
	if !slices.Equal(r.Values[0], []float64{1.5, 2}) {
		t.Errorf("%+v", r)
	}
}
