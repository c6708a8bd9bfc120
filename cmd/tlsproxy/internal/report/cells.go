package report

import (
	"fmt"
	"slices"

	"github.com/ctrutls/ctrutls/internal/bench/chart"
)

// cell is a number of a table as HTML and Markdown show it, alike.
type cell struct {
	Text   string // the median
	Spread string // "1.20 to 1.30"; empty where there is one value only
}

const none = "–"

// heads are a table's columns that are not labels.
func (t *Table) heads() []string {
	var all []string
	for _, m := range t.Metrics {
		all = append(all, m.head())
		if m.Ratio {
			for _, base := range t.Bases {
				all = append(all, fmt.Sprintf("%s, %s = 1", m.Name, base))
			}
		}
	}
	return all
}

// cells are a row's, in the order of heads.
func (s *Section) cells(t *Table, r *Row) []cell {
	var all []cell
	for i, m := range t.Metrics {
		all = append(all, s.cell(r, i, Itself))
		if m.Ratio {
			for base := range t.Bases {
				all = append(all, s.cell(r, i, base))
			}
		}
	}
	return all
}

func (s *Section) cell(r *Row, metric, base int) cell {
	spread, ok := s.spread(r, metric, base)
	if !ok {
		return cell{Text: none}
	}
	if base != Itself && r.Bases[base] == r.ID {
		return cell{Text: "1"}
	}
	c := cell{Text: chart.Number(spread.Median)}
	if len(r.Values[metric]) > 1 {
		c.Spread = chart.Number(spread.Low) + " to " + chart.Number(spread.High)
	}
	return c
}

// drawing is a chart with the rows' values; false if there is nothing to draw.
func (s *Section) drawing(t *Table, c *Chart) (chart.Drawing, bool) {
	bars := &chart.Bars{Title: c.Title, X: c.Y}
	lines := &chart.Lines{Title: c.Title, X: c.X, Y: c.Y, LogY: c.LogY}
	if c.Base != Itself {
		bars.Reference = 1
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		spread, ok := s.spread(r, c.Metric, c.Base)
		if r.Series == "" || !ok {
			continue
		}
		v := chart.Value{Middle: spread.Median, Low: spread.Low, High: spread.High}
		bars.Bars = append(bars.Bars, chart.Bar{Label: r.Name, Series: r.Series, Value: v})
		lines.Series = addPoint(lines.Series, r.Series, chart.Point{X: r.X, Value: v})
	}
	if c.Kind == Lines {
		return lines, len(lines.Series) > 0
	}
	return bars, len(bars.Bars) > 0
}

// addPoint adds to the series of that name, the first time a new one.
func addPoint(all []chart.Series, name string, p chart.Point) []chart.Series {
	i := slices.IndexFunc(all, func(s chart.Series) bool { return s.Name == name })
	if i < 0 {
		i, all = len(all), append(all, chart.Series{Name: name})
	}
	all[i].Points = append(all[i].Points, p)
	return all
}
