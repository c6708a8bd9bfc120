// Package chart draws measurements as SVG: lines by batch size, and bars. A drawing fits a page that is light or dark, says what it shows to
// those who do not see it, and tells its series apart by more than colour.
//
// It knows numbers and their names only, not what was measured.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Style is the drawings' style sheet: of a page that holds them, and part of each Standalone drawing.
const Style = `svg.chart{--ink:#1f2328;--faint:#d0d7de;--c0:#0b62ad;--c1:#b3261e;--c2:#1a7f37;--c3:#8250df;--c4:#9a6700;--c5:#0f766e;font:15px system-ui,sans-serif}
@media (prefers-color-scheme:dark){svg.chart{--ink:#e6edf3;--faint:#3d444d;--c0:#6cb6ff;--c1:#ff8f85;--c2:#57d364;--c3:#d2a8ff;--c4:#e3b341;--c5:#5eead4}}
svg.chart text{fill:var(--ink);}
svg.chart .grid{stroke:var(--faint);stroke-width:1;fill:none}
svg.chart .reference{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 3;fill:none}
svg.chart .spread{fill:none;stroke:var(--ink);stroke-width:1.2}
svg.chart .s0{stroke:var(--c0);fill:var(--c0)}svg.chart .s1{stroke:var(--c1);fill:var(--c1)}svg.chart .s2{stroke:var(--c2);fill:var(--c2)}
svg.chart .s3{stroke:var(--c3);fill:var(--c3)}svg.chart .s4{stroke:var(--c4);fill:var(--c4)}svg.chart .s5{stroke:var(--c5);fill:var(--c5)}
svg.chart .line{fill:none;stroke-width:2;stroke-linejoin:round}
`

// A Drawing is what SVG, Standalone and SideBySide put on a page.
type Drawing interface {
	heading() (title, description string)
	size() (width, height float64)
	draw(b *strings.Builder)
}

// SVG returns a drawing for a page that has Style. The id is unique in that page, and letters, digits and hyphens.
func SVG(d Drawing, id string) string {
	var b strings.Builder
	b.WriteString(open(d, id, ""))
	d.draw(&b)
	b.WriteString("</svg>\n")
	return b.String()
}

// Standalone returns a drawing that is a file of its own.
func Standalone(d Drawing) string {
	var b strings.Builder
	b.WriteString(open(d, "chart", ` xmlns="http://www.w3.org/2000/svg"`))
	fmt.Fprintf(&b, "<style>%s</style>\n", Style)
	d.draw(&b)
	b.WriteString("</svg>\n")
	return b.String()
}

func open(d Drawing, id, attributes string) string {
	title, description := d.heading()
	width, height := d.size()
	return fmt.Sprintf(`<svg%s class="chart" role="img" viewBox="0 0 %g %g" aria-labelledby="%s-title %s-about"><title id="%s-title">%s</title><desc id="%s-about">%s</desc>`+"\n",
		attributes, width, height, id, id, id, html.EscapeString(title), id, html.EscapeString(description))
}

// SideBySide is two drawings in one, the second to the right of the first.
type SideBySide struct {
	Title       string
	Left, Right Drawing
}

func (s SideBySide) heading() (title, description string) {
	_, left := s.Left.heading()
	_, right := s.Right.heading()
	return s.Title, left + " " + right
}

func (s SideBySide) size() (width, height float64) {
	leftWidth, leftHeight := s.Left.size()
	rightWidth, rightHeight := s.Right.size()
	return leftWidth + rightWidth, max(leftHeight, rightHeight)
}

func (s SideBySide) draw(b *strings.Builder) {
	s.Left.draw(b)
	width, _ := s.Left.size()
	fmt.Fprintf(b, `<g transform="translate(%g 0)">`+"\n", width)
	s.Right.draw(b)
	b.WriteString("</g>\n")
}

// A Value is a measured number with its spread.
type Value struct{ Middle, Low, High float64 }

// A Point is a Value at a place.
type Point struct {
	X float64
	Value
}

// A Series is a line, and its name.
type Series struct {
	Name   string
	Points []Point
}

// Lines shows series over a logarithmic axis of positive numbers, such as batch sizes.
type Lines struct {
	Title  string
	X, Y   string // what the axes are, with their units
	LogY   bool   // otherwise the axis begins at 0
	Series []Series
}

const (
	maxSeries  = 6 // that have colours of their own
	lineHeight = 20
	linesWidth = 540.0
)

func (l *Lines) heading() (title, description string) {
	names := make([]string, len(l.Series))
	for i, s := range l.Series {
		names[i] = s.Name
	}
	return l.Title, fmt.Sprintf("%s by %s, of %s. The table has the numbers.", l.Y, l.X, strings.Join(names, ", "))
}

// The area of the lines.
const (
	areaLeft, areaTop  = 62.0, 50.0
	areaWide, areaHigh = linesWidth - areaLeft - 30, 250.0
	underArea          = 50.0
	legendWide         = 250.0
	legendLetters      = 22 // that there is room for in it
)

func (l *Lines) size() (width, height float64) {
	rows := (len(l.Series) + l.beside() - 1) / l.beside()
	return linesWidth, areaTop + areaHigh + underArea + float64(rows)*lineHeight + 6
}

// beside is how many entries of the legend stand beside each other.
func (l *Lines) beside() int {
	if slices.ContainsFunc(l.Series, func(s Series) bool { return utf8.RuneCountInString(s.Name) > legendLetters }) {
		return 1
	}
	return 2
}

// scale maps values to a place between 0 and 1.
type scale struct {
	low, high float64
	log       bool
}

func (s scale) at(v float64) float64 {
	if s.log {
		return (math.Log(v) - math.Log(s.low)) / (math.Log(s.high) - math.Log(s.low))
	}
	return (v - s.low) / (s.high - s.low)
}

// scales find room for all values.
func (l *Lines) scales() (x, y scale) {
	x, y = scale{math.Inf(1), math.Inf(-1), true}, scale{math.Inf(1), math.Inf(-1), l.LogY}
	for _, s := range l.Series {
		for _, p := range s.Points {
			x.low, x.high = min(x.low, p.X), max(x.high, p.X)
			y.low, y.high = min(y.low, p.Low), max(y.high, p.High)
		}
	}
	if x.low > x.high { // no points
		x.low, x.high, y.low, y.high = 1, 2, 1, 2
	}
	if x.low == x.high {
		x.low, x.high = x.low/2, x.high*2
	}
	if !l.LogY {
		y.low, y.high = 0, niceAbove(y.high)
		return x, y
	}
	y.low, y.high = math.Pow(10, math.Floor(math.Log10(y.low))), math.Pow(10, math.Ceil(math.Log10(y.high)))
	if y.low == y.high {
		y.high *= 10
	}
	return x, y
}

// niceAbove is the next of 1, 2, 2.5, 4, 5, 8 and 10 times a power of ten.
func niceAbove(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 2.5, 4, 5, 8} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

// ticks are where an axis is labelled.
func (s scale) ticks() []float64 {
	var all []float64
	if !s.log {
		for i := range 5 {
			all = append(all, s.low+(s.high-s.low)*float64(i)/4)
		}
		return all
	}
	for v := s.low; v <= s.high*1.0001; v *= 10 {
		all = append(all, v)
	}
	return all
}

// places are the X of all points, from the last one down, but for those whose labels would touch the one before.
func (l *Lines) places(x scale) []float64 {
	var all []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			all = append(all, p.X)
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	const apart = 62 / areaWide
	free := math.Inf(1)
	return slices.DeleteFunc(slices.Compact(all), func(v float64) bool {
		if x.at(v) > free {
			return true
		}
		free = x.at(v) - apart
		return false
	})
}

func (l *Lines) draw(b *strings.Builder) {
	x, y := l.scales()
	across := func(v float64) float64 { return areaLeft + areaWide*x.at(v) }
	down := func(v float64) float64 { return areaTop + areaHigh*(1-y.at(v)) }
	text(b, 8, 18, "start", l.Title, ` font-weight="600"`)
	text(b, 8, 37, "start", l.Y, "")
	for _, v := range y.ticks() {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fh%.1f"/>`, areaLeft, down(v), areaWide)
		text(b, areaLeft-6, down(v)+4, "end", tick(v), "")
	}
	for _, v := range l.places(x) {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fv%.1f"/>`, across(v), areaTop, areaHigh)
		text(b, across(v), areaTop+areaHigh+17, "middle", tick(v), "")
	}
	text(b, areaLeft+areaWide/2, areaTop+areaHigh+37, "middle", l.X, "")
	b.WriteString("\n")
	for i, s := range l.Series {
		l.series(b, i, s, across, down)
	}
}

// series draws a line, its points and their spread, and its entry in the legend.
func (l *Lines) series(b *strings.Builder, i int, s Series, across, down func(float64) float64) {
	var path []string
	for _, p := range s.Points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", across(p.X), down(p.Middle)))
	}
	fmt.Fprintf(b, `<polyline class="line s%d"%s points="%s"/>`, i%maxSeries, dash(i), strings.Join(path, " "))
	for _, p := range s.Points {
		fmt.Fprintf(b, `<path class="spread" d="M%.1f %.1fV%.1f"/>`, across(p.X), down(p.Low), down(p.High))
		mark(b, i, across(p.X), down(p.Middle))
	}
	left := areaLeft + float64(i%l.beside())*legendWide
	top := areaTop + areaHigh + underArea + float64(i/l.beside())*lineHeight + 6
	fmt.Fprintf(b, `<path class="line s%d"%s d="M%.1f %.1fh28"/>`, i%maxSeries, dash(i), left, top)
	mark(b, i, left+14, top)
	text(b, left+36, top+4, "start", s.Name, "")
	b.WriteString("\n")
}

// dash is a pattern for each series, so that colour is not all.
func dash(i int) string {
	pattern := []string{"", "7 4", "2 3", "9 3 2 3", "12 4", "4 2"}[i%maxSeries]
	if pattern == "" {
		return ""
	}
	return ` stroke-dasharray="` + pattern + `"`
}

// mark draws a point in a shape for each series.
func mark(b *strings.Builder, i int, x, y float64) {
	class := fmt.Sprintf(`class="s%d"`, i%maxSeries)
	switch i % 3 {
	case 0:
		fmt.Fprintf(b, `<circle %s cx="%.1f" cy="%.1f" r="3"/>`, class, x, y)
	case 1:
		fmt.Fprintf(b, `<rect %s x="%.1f" y="%.1f" width="6" height="6"/>`, class, x-3, y-3)
	default:
		fmt.Fprintf(b, `<path %s d="M%.1f %.1fl4 7h-8z"/>`, class, x, y-4)
	}
}

// A Bar is a Value with its name. Bars of one Series stand together beneath its name.
type Bar struct {
	Label  string
	Series string
	Value
}

// Bars shows values as lengths, from the top down, on an axis that begins at 0.
type Bars struct {
	Title     string
	X         string  // what the axis is, with its unit
	Reference float64 // where a line is drawn; 0: nowhere
	Bars      []Bar
}

const (
	barHeight, barStep   = 14.0, 22.0
	barLabels, barValues = 214.0, 52.0
	barWide              = linesWidth - barLabels - barValues
)

func (c *Bars) heading() (title, description string) {
	return c.Title, fmt.Sprintf("%s, as %d bars. The table has the numbers.", c.X, len(c.Bars))
}

func (c *Bars) size() (width, height float64) {
	return linesWidth, areaTop + barStep*float64(len(c.Bars)+len(c.series())) + 8
}

// series are the names of the groups.
func (c *Bars) series() []string {
	var all []string
	for _, bar := range c.Bars {
		if !slices.Contains(all, bar.Series) {
			all = append(all, bar.Series)
		}
	}
	return all
}

func (c *Bars) draw(b *strings.Builder) {
	highest := max(c.Reference, math.SmallestNonzeroFloat64)
	for _, bar := range c.Bars {
		highest = max(highest, bar.High, bar.Middle)
	}
	axis := scale{0, highest, false}
	across := func(v float64) float64 { return barLabels + barWide*axis.at(v) }
	text(b, 8, 18, "start", c.Title, ` font-weight="600"`)
	text(b, 8, 37, "start", c.X, "")
	if _, height := c.size(); c.Reference > 0 {
		fmt.Fprintf(b, `<path class="reference" d="M%.1f %.1fV%.1f"/>`, across(c.Reference), areaTop, height-8)
	}
	b.WriteString("\n")
	top := areaTop
	for i, series := range c.series() {
		text(b, 8, top+12, "start", series, ` font-weight="600"`)
		top += barStep
		for _, bar := range c.Bars {
			if bar.Series == series {
				c.bar(b, i, bar, top, across)
				top += barStep
			}
		}
	}
}

// bar draws one, with its name on the left and its value on the right: beyond the reference, where that would run through it.
func (c *Bars) bar(b *strings.Builder, series int, bar Bar, top float64, across func(float64) float64) {
	text(b, barLabels-8, top+12, "end", bar.Label, "")
	fmt.Fprintf(b, `<rect class="s%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, series%maxSeries, barLabels, top, across(bar.Middle)-barLabels, barHeight)
	fmt.Fprintf(b, `<path class="spread" d="M%.1f %.1fH%.1f"/>`, across(bar.Low), top+barHeight/2, across(bar.High))
	right := across(max(bar.High, bar.Middle))
	if at := across(c.Reference); at >= right && at < right+barValues {
		right = at
	}
	text(b, right+5, top+12, "start", Number(bar.Middle), "")
	b.WriteString("\n")
}

func text(b *strings.Builder, x, y float64, anchor, s, attributes string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, attributes, html.EscapeString(s))
}

// Number writes a value with three digits that count, whole numbers as they are, and thousands apart.
func Number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	_, power, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	exponent, err := strconv.Atoi(power)
	if err != nil {
		panic("chart: " + err.Error()) // strconv has just written it
	}
	if exponent >= 2 || v == math.Trunc(v) {
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'f', 2-exponent, 64)
}

// tick writes a number of an axis: as short as it is.
func tick(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case size >= 1e5:
		return fmt.Sprintf("%.3gk", v/1e3)
	case size >= 1e3:
		return thousands(fmt.Sprintf("%.0f", v))
	}
	return fmt.Sprintf("%.3g", v)
}

// thousands puts a comma before every third digit from the right.
func thousands(s string) string {
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return sign + s
}
