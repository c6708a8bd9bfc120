package report

import (
	"fmt"
	"slices"
	"time"
)

// Report is what was measured.
type Report struct {
	Program  string        `json:"program"` // with its version
	Machine  string        `json:"machine"` // its processor and GPUs
	Command  string        `json:"command"`
	Began    time.Time     `json:"began"`
	Duration time.Duration `json:"duration"` // that measuring was to take
	Took     time.Duration `json:"took"`
	Note     string        `json:"note,omitempty"` // of whoever ran it
	Facts    []Fact        `json:"facts"`          // the machine and the versions
	Sections []Section     `json:"sections"`
}

// Fact is a line about the machine or the program.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Section is a part of the report.
type Section struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	About   []string `json:"about"`             // what is measured and how, by paragraph
	Command string   `json:"command"`           // that measures this part alone
	Missing string   `json:"missing,omitempty"` // why it was not measured
	Error   string   `json:"error,omitempty"`   // why it was not measured to the end
	Tables  []Table  `json:"tables"`
}

// Table has a row for each thing that was measured.
type Table struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Labels  []string `json:"labels"`  // heads of the columns that say what a row is
	Metrics []Metric `json:"metrics"` // what was measured of each
	Bases   []string `json:"bases"`   // what the ratios are to
	Rows    []Row    `json:"rows"`
	Charts  []Chart  `json:"charts"`
}

// Metric is a quantity.
type Metric struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Ratio bool   `json:"ratio"` // to the bases is shown
}

// head is the metric's column's.
func (m Metric) head() string {
	if m.Unit == "" {
		return m.Name
	}
	return m.Name + ", " + m.Unit
}

// Row is a thing that was measured.
type Row struct {
	ID     string      `json:"id"` // unique in the section
	Labels []string    `json:"labels"`
	Values [][]float64 `json:"values"` // of each metric, of each round; empty where there is none
	Bases  []string    `json:"bases"`  // the IDs of the rows that the ratios are to, one for each of the table's; "" where there is none
	Error  string      `json:"error,omitempty"`

	Series string  `json:"series,omitempty"` // in the charts; empty: it is not in them
	Name   string  `json:"name,omitempty"`   // of its bar
	X      float64 `json:"x,omitempty"`      // its place in lines
}

// add appends a round's values.
func (r *Row) add(values ...float64) {
	if r.Values == nil {
		r.Values = make([][]float64, len(values))
	}
	for i, v := range values {
		r.Values[i] = append(r.Values[i], v)
	}
}

// fail makes an error of the row.
func (r *Row) fail(err error) { r.Error, r.Values = inLine(err), nil }

// Chart draws rows of its table.
type Chart struct {
	ID     string `json:"id"` // unique in the report; also the name of its file
	Kind   Kind   `json:"kind"`
	Title  string `json:"title"`
	X      string `json:"x"` // of lines
	Y      string `json:"y"`
	Metric int    `json:"metric"`
	Base   int    `json:"base"` // ratios to which are drawn; Itself: the metric is
	LogY   bool   `json:"log_y"`
}

// Itself as a Chart's Base stands for the metric itself.
const Itself = -1

// Kind is a kind of Chart.
type Kind string

// The kinds.
const (
	Lines Kind = "lines"
	Bars  Kind = "bars"
)

// Spread is the median of several values and their quartiles, between which the middle half of them lies.
type Spread struct{ Median, Low, High float64 }

// Summarize returns the spread of at least one value. Between two values that are next to each other quartiles are interpolated.
func Summarize(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		place := share * float64(len(sorted)-1)
		i := int(place)
		if i+1 == len(sorted) {
			return sorted[i]
		}
		return sorted[i] + (place-float64(i))*(sorted[i+1]-sorted[i])
	}
	return Spread{at(0.5), at(0.25), at(0.75)}
}

// ratios divides values by a base's of the same round.
func ratios(values, base []float64) []float64 {
	var all []float64
	for i := range min(len(values), len(base)) {
		if base[i] != 0 {
			all = append(all, values[i]/base[i])
		}
	}
	return all
}

// row finds a row by its ID.
func (s *Section) row(id string) *Row {
	for t := range s.Tables {
		for r := range s.Tables[t].Rows {
			if s.Tables[t].Rows[r].ID == id {
				return &s.Tables[t].Rows[r]
			}
		}
	}
	return nil
}

// spread is a metric of a row, or its ratio to a base; false where there is none.
func (s *Section) spread(r *Row, metric, base int) (Spread, bool) {
	if r.Error != "" || metric >= len(r.Values) {
		return Spread{}, false
	}
	values := r.Values[metric]
	if base != Itself {
		if base >= len(r.Bases) {
			return Spread{}, false
		}
		of := s.row(r.Bases[base])
		if of == nil || of.Error != "" || metric >= len(of.Values) {
			return Spread{}, false
		}
		values = ratios(values, of.Values[metric])
	}
	if len(values) == 0 {
		return Spread{}, false
	}
	return Summarize(values), true
}

// Failures lists what was to be measured and was not.
func (r *Report) Failures() []string {
	var all []string
	for _, s := range r.Sections {
		if s.Error != "" {
			all = append(all, s.ID+": "+s.Error)
		}
		for _, t := range s.Tables {
			for _, row := range t.Rows {
				if row.Error != "" {
					all = append(all, fmt.Sprintf("%s: %s: %s", s.ID, row.ID, row.Error))
				}
			}
		}
	}
	return all
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
