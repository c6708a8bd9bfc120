package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func lines() *Lines {
	return &Lines{Title: "A < B", X: "batch size", Y: "us", LogY: true, Series: []Series{
		{"mma & co", []Point{{1, Value{5, 4, 6}}, {1024, Value{50, 40, 60}}}},
		{"ntt", []Point{{1, Value{6, 6, 6}}}}}}
}

// parse returns the names and attributes of what is in a drawing.
func parse(t *testing.T, svg string) (elements []xml.StartElement, words string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, words
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements = append(elements, token.Copy())
		case xml.CharData:
			words += string(token) + "\n"
		}
	}
}

// Every drawing is well-formed, has a title and a description, and no number that is none.
func TestDrawings(t *testing.T) {
	bars := &Bars{Title: "Bars", X: "ratio", Reference: 1, Bars: []Bar{{"one", "a", Value{1, 1, 1}}, {"two", "b", Value{2, 1.5, 2.5}}}}
	for name, d := range map[string]Drawing{
		"lines": lines(), "linear": &Lines{Title: "T", X: "x", Y: "y", Series: lines().Series}, "one point": &Lines{Title: "T", Series: []Series{{"s", []Point{{4, Value{1, 1, 1}}}}}},
		"one decade": &Lines{Title: "T", LogY: true, Series: []Series{{"s", []Point{{4, Value{10, 10, 10}}}}}},
		"nothing":    &Lines{Title: "T"}, "bars": bars, "no bars": &Bars{Title: "T"}, "both": SideBySide{"T", lines(), bars},
	} {
		for _, svg := range []string{SVG(d, "x"), Standalone(d)} {
			elements, words := parse(t, svg)
			if elements[0].Name.Local != "svg" || elements[1].Name.Local != "title" || elements[2].Name.Local != "desc" {
				t.Errorf("%s begins with %v", name, elements[:3])
			}
			if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("%s: not a number in\n%s", name, svg)
			}
			if title, _ := d.heading(); !strings.Contains(words, title) {
				t.Errorf("%s: no title in %q", name, words)
			}
		}
	}
	if _, words := parse(t, SVG(lines(), "x")); !strings.Contains(words, "mma & co") || !strings.Contains(words, "1,024") {
		t.Errorf("%q", words)
	}
}

// TestPlaces: the least value of a bar is at the left, points are where the axes say.
func TestPlaces(t *testing.T) {
	x, y := lines().scales()
	if x.at(1) != 0 || math.Abs(x.at(32)-0.5) > 1e-9 || x.at(1024) != 1 {
		t.Errorf("x: %v, %v, %v", x.at(1), x.at(32), x.at(1024))
	}
	if y.low != 1 || y.high != 100 || y.at(10) != 0.5 {
		t.Errorf("y: %+v, %v", y, y.at(10))
	}
}

// TestPlacesAreThinnedOut: the last place is labelled, and none that would touch another's label.
func TestPlacesAreThinnedOut(t *testing.T) {
	l := &Lines{Series: []Series{{Name: "s"}}}
	for i := range 64 {
		l.Series[0].Points = append(l.Series[0].Points, Point{X: float64(i + 1)})
	}
	x, _ := l.scales()
	got := l.places(x)
	if got[0] != 64 || got[len(got)-1] != 1 || len(got) > 10 {
		t.Errorf("%v", got)
	}
}

// TestLegend: names that are long stand beneath each other.
func TestLegend(t *testing.T) {
	short, long := lines(), lines()
	long.Series[0].Name = strings.Repeat("µ", legendLetters+1)
	_, low := short.size()
	_, high := long.size()
	if high != low+lineHeight {
		t.Errorf("%v and %v high", low, high)
	}
}

func TestTick(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01: "0.01", 0.75: "0.75", 65536: "65,536", 100_000: "100k", 262_144: "262k", 1e6: "1M"} {
		if got := tick(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.500", 12.345: "12.3", 1234.5: "1,234", 65536: "65,536", 0.01234: "0.0123", 2.5: "2.50", 10: "10", 1e7: "10,000,000", -1500: "-1,500", 999.9: "1,000", 99.96: "100", 0.9996: "1.00", 9.999: "10.0", 0.1: "0.100", 0.001: "0.00100", 1000: "1,000"} {
		if got := Number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
