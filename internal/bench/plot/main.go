// Command plot draws products on the Tensor Cores against products by transforms, from the output of BenchmarkLaunches and
// BenchmarkResident on standard input, as an SVG on standard output: latency on the left, throughput on the right, by batch size.
package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := plot(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// A point is a batch's size with its time in microseconds.
type point struct{ batch, time float64 }

var lines = []struct {
	name, colour, dash string
	match              *regexp.Regexp // group 1 is the batch's size
}{
	{"mul_mma, product", "#1b6ca8", "", regexp.MustCompile(`^BenchmarkLaunches/761/(\d+)/encaps_product_mma_761/`)},
	{"mul_ntt, product", "#c0392b", "", regexp.MustCompile(`^BenchmarkLaunches/761/(\d+)/encaps_product_ntt_761/`)},
	{"mul_mma, Encaps", "#1b6ca8", "6 4", regexp.MustCompile(`^BenchmarkResident/761/encaps/mma/split/(\d+)(?:-\d+)?\s`)},
	{"mul_ntt, Encaps", "#c0392b", "6 4", regexp.MustCompile(`^BenchmarkResident/761/encaps/ntt/split/(\d+)(?:-\d+)?\s`)},
}

var duration = regexp.MustCompile(`([\d.]+) us/batch`)

func plot(r io.Reader, w io.Writer) error {
	series := make([][]point, len(lines))
	for in := bufio.NewScanner(r); in.Scan(); {
		for i, line := range lines {
			name, time := line.match.FindStringSubmatch(in.Text()), duration.FindStringSubmatch(in.Text())
			if name == nil || time == nil {
				continue
			}
			batch, _ := strconv.ParseFloat(name[1], 64) // digits
			t, err := strconv.ParseFloat(time[1], 64)
			if err != nil {
				return err
			}
			series[i] = append(series[i], point{batch, t})
		}
	}
	for i, s := range series {
		if len(s) == 0 {
			return fmt.Errorf("no measurement of %s in the input: it wants the output of go test -bench 'Resident|Launches'", lines[i].name)
		}
		slices.SortFunc(s, func(a, b point) int { return int(a.batch - b.batch) })
	}
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 400" font-family="sans-serif" font-size="12">` + "\n" + `<rect width="920" height="400" fill="white"/>` + "\n")
	panel(&b, 60, "us a batch", series, func(p point) float64 { return p.time })
	panel(&b, 520, "million operations a second", series, func(p point) float64 { return p.batch / p.time })
	for i, line := range lines {
		x := 60 + 215*i
		fmt.Fprintf(&b, `<path d="M%d 385h30" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="389">%s</text>`+"\n", x, line.colour, line.dash, x+36, line.name)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// panel draws one diagram with logarithmic axes, 360 by 300 from (left, 40).
func panel(b *strings.Builder, left float64, title string, series [][]point, value func(point) float64) {
	const width, height, top = 360, 300, 40
	low, high, last := math.Inf(1), math.Inf(-1), 1.0
	for _, s := range series {
		for _, p := range s {
			low, high, last = min(low, value(p)), max(high, value(p)), max(last, p.batch)
		}
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	x := func(batch float64) float64 { return left + width*math.Log2(batch)/math.Log2(last) }
	y := func(v float64) float64 { return top + height*(high-math.Log10(v))/(high-low) }
	fmt.Fprintf(b, `<text x="%g" y="24" font-weight="bold">%s by batch size</text>`+"\n", left, title)
	for e := low; e <= high; e++ {
		at := y(math.Pow(10, e))
		fmt.Fprintf(b, `<path d="M%g %.1fh%d" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", left, at, width, left-6, at+4, math.Pow(10, e))
	}
	for batch := 1.0; batch <= last; batch *= 8 {
		fmt.Fprintf(b, `<path d="M%.1f %dv%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x(batch), top, height, x(batch), top+height+16, batch)
	}
	for i, s := range series {
		var points []string
		for _, p := range s {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.batch), y(value(p))))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.Join(points, " "), lines[i].colour, lines[i].dash)
	}
}
