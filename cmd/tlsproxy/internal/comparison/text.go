package comparison

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s\n", r.Program, r.Machine, r.Began.Format(time.RFC3339))
	for _, level := range r.Levels {
		fmt.Fprintf(w, "\nConcurrency %d:\n\n", level[0].Concurrency)
		if err := WriteTable(w, level); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%s\n", r.method())
	if r.Interrupted {
		fmt.Fprintln(w, "Interrupted: this is what was measured until then.")
	}
	for _, warning := range r.Warnings {
		fmt.Fprintln(w, "Warning:", warning)
	}
	return nil
}

func (r *Report) method() string {
	of := r.Duration.String()
	switch connections := fmt.Sprintf("%d connections", r.Count); {
	case r.Duration == 0:
		of = connections
	case r.Count > 0:
		of += " or " + connections + ", whichever is less"
	}
	if r.Rounds == 1 {
		return "One round of " + of + "; CPU is for each handshake, with what came after it."
	}
	return fmt.Sprintf("Medians of %d interleaved rounds of %s, ratios round by round; CPU is for each handshake, with what came after it.", r.Rounds, of)
}

// WriteTable prints rows of one concurrency. Columns that hold nothing are left out.
func WriteTable(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := slices.DeleteFunc(slices.Concat(alwaysColumns, cpuColumns, ratioColumns(rows), requestColumns, lastColumns), func(c column) bool {
		return c.wanted != nil && !slices.ContainsFunc(rows, c.wanted)
	})
	fmt.Fprint(t, "  ")
	for _, c := range columns {
		fmt.Fprintf(t, "%s\t", c.head)
	}
	for i := range rows {
		fmt.Fprint(t, "\n  ")
		for _, c := range columns {
			fmt.Fprintf(t, "%s\t", c.cell(&rows[i]))
		}
	}
	fmt.Fprintln(t)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, row := range rows {
		for _, cause := range slices.Sorted(maps.Keys(row.Failures)) {
			fmt.Fprintf(w, "  %s failed: %s: %d\n", row.Name, cause, row.Failures[cause])
		}
	}
	return nil
}

// column is one of a table's; wanted, if set, says whether a row has something for it.
type column struct {
	head   string
	cell   func(*Row) string
	wanted func(Row) bool
}

var alwaysColumns = []column{
	{"", func(r *Row) string { return r.Name }, nil},
	{"group", func(r *Row) string { return r.Group }, func(r Row) bool { return r.Group != r.Name }},
	{"handshakes/s", func(r *Row) string { return fmt.Sprintf("%.0f", r.PerSecond) }, nil},
	{"p50", func(r *Row) string { return Milliseconds(r.Handshake.P50) }, nil},
	{"p90", func(r *Row) string { return Milliseconds(r.Handshake.P90) }, nil},
	{"p99", func(r *Row) string { return Milliseconds(r.Handshake.P99) }, nil},
	{"max", func(r *Row) string { return Milliseconds(r.Handshake.Max) }, nil},
}

func hasServer(r Row) bool { return r.ServerCPU > 0 }

var cpuColumns = []column{
	{"server CPU", func(r *Row) string { return microseconds(r.ServerCPU) }, hasServer},
	{"per core/s", func(r *Row) string { return fmt.Sprintf("%.0f", r.PerServerCore) }, hasServer},
	{"cores busy", func(r *Row) string { return fmt.Sprintf("%.2f", r.ServerBusy) }, hasServer},
}

// ratioColumns compare with each base: the server's processor time, and the latency.
func ratioColumns(rows []Row) []column {
	var all []column
	for i, ratio := range rows[0].Ratios {
		all = append(all,
			column{"CPU to " + ratio.Base, func(r *Row) string { return fmt.Sprintf("%.2f", r.Ratios[i].ServerCPU) }, hasServer},
			column{"p50, p99", func(r *Row) string { return fmt.Sprintf("%.2f, %.2f", r.Ratios[i].P50, r.Ratios[i].P99) }, nil})
	}
	return all
}

func hasRequests(r Row) bool { return r.Requests > 0 }

var requestColumns = []column{
	{"requests/s", func(r *Row) string { return fmt.Sprintf("%.0f", r.RequestsPerSecond) }, hasRequests},
	{"request p50", func(r *Row) string { return Milliseconds(r.Request.P50) }, hasRequests},
	{"p99", func(r *Row) string { return Milliseconds(r.Request.P99) }, hasRequests},
}

var lastColumns = []column{
	{"client CPU", func(r *Row) string { return microseconds(r.ClientCPU) }, nil},
	{"cores busy", func(r *Row) string { return fmt.Sprintf("%.2f", r.ClientBusy) }, nil},
	{"done", func(r *Row) string { return fmt.Sprint(r.Completed) }, nil},
	{"failed", func(r *Row) string { return fmt.Sprint(r.Failed) }, nil},
}

// Milliseconds formats a latency.
func Milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }

func microseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f us", d.Seconds()*1e6)
}
