// Command plot draws products on the Tensor Cores against products by transforms, from the output of BenchmarkLaunches and
// BenchmarkResident on standard input, as an SVG on standard output: latency on the left, throughput on the right, by batch size.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"

	"github.com/ctrutls/ctrutls/internal/bench/chart"
)

func main() {
	if err := plot(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

var lines = []struct {
	name  string
	match *regexp.Regexp // group 1 is the batch's size
}{
	{"mul_mma, product", regexp.MustCompile(`^BenchmarkLaunches/761/(\d+)/encaps_product_mma_761/`)},
	{"mul_ntt, product", regexp.MustCompile(`^BenchmarkLaunches/761/(\d+)/encaps_product_ntt_761/`)},
	{"mul_mma, Encaps", regexp.MustCompile(`^BenchmarkResident/761/encaps/mma/split/(\d+)(?:-\d+)?\s`)},
	{"mul_ntt, Encaps", regexp.MustCompile(`^BenchmarkResident/761/encaps/ntt/split/(\d+)(?:-\d+)?\s`)},
}

var duration = regexp.MustCompile(`([\d.]+) us/batch`)

func plot(r io.Reader, w io.Writer) error {
	latency := chart.Lines{Title: "Latency by batch size", X: "operations a batch", Y: "us a batch", LogY: true, Series: make([]chart.Series, len(lines))}
	rate := chart.Lines{Title: "Throughput by batch size", X: latency.X, Y: "million operations a second", LogY: true, Series: make([]chart.Series, len(lines))}
	in := bufio.NewScanner(r)
	for in.Scan() {
		for i, line := range lines {
			latency.Series[i].Name, rate.Series[i].Name = line.name, line.name
			name, time := line.match.FindStringSubmatch(in.Text()), duration.FindStringSubmatch(in.Text())
			if name == nil || time == nil {
				continue
			}
			batch, _ := strconv.ParseFloat(name[1], 64) // digits
			t, err := strconv.ParseFloat(time[1], 64)
			if err != nil {
				return err
			}
			add(&latency.Series[i], batch, t)
			add(&rate.Series[i], batch, batch/t)
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	for i, line := range lines {
		if len(latency.Series[i].Points) == 0 {
			return fmt.Errorf("no measurement of %s in the input: it wants the output of go test -bench 'Resident|Launches'", line.name)
		}
	}
	_, err := io.WriteString(w, chart.Standalone(chart.SideBySide{Title: "Products on the Tensor Cores and by transforms", Left: &latency, Right: &rate}))
	return err
}

// add keeps a series in the order of its batches.
func add(s *chart.Series, batch, value float64) {
	s.Points = append(s.Points, chart.Point{X: batch, Value: chart.Value{Middle: value, Low: value, High: value}})
	slices.SortFunc(s.Points, func(a, b chart.Point) int { return cmp.Compare(a.X, b.X) })
}
