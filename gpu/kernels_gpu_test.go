//go:build gputest

package gpu_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

var (
	seed        = flag.Uint64("kernels.seed", rand.Uint64(), "what the random cases depend on")
	rows        = flag.Int("kernels.rows", 1_000_000, "operations of each kind and set to check with the default multiplication")
	otherRows   = flag.Int("kernels.otherrows", 100_000, "and with each other one")
	totalRows   = flag.Int("kernels.total", 2_000_000, "operations of each end-to-end measurement")
	measureSets = flag.Bool("kernels.allsets", false, "measure 653 and 1277 too")
	ptx         = flag.String("kernels.ptx", "", "a folder of PTX files to run instead of the embedded ones: kernels/build-nvcc.sh makes one")
)

// card opens the first device for a test or benchmark.
func card(t testing.TB) (*bench.Card, driver.Stream) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c, err := bench.OpenCard("", 0)
	check(t, err)
	c.UsePTX(*ptx)
	check(t, c.API.PrimaryCtxSetFlags(0, driver.ScheduleSpin))
	stream, err := c.API.StreamCreate(0)
	check(t, err)
	t.Cleanup(func() {
		check(t, c.API.StreamDestroy(stream))
		check(t, c.Close())
	})
	return c, stream
}

// bind lets a subtest, which runs on a thread of its own, use the card.
func bind(t testing.TB, c *bench.Card) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	check(t, c.Bind())
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSet(t testing.TB, n int) *kernels.Set {
	t.Helper()
	set, err := kernels.NewSet(n)
	check(t, err)
	return set
}

func shapes(op kernels.Operation, m kernels.Multiplication) []kernels.Shape {
	switch {
	case m != kernels.MMA:
		return []kernels.Shape{kernels.Split}
	case op == kernels.KeyGen:
		return []kernels.Shape{kernels.Split, kernels.SplitWarp}
	}
	return []kernels.Shape{kernels.Split, kernels.SplitWarp, kernels.One}
}

// Every kernel gives what the CPU gives: fresh random inputs, invalid keys and wrong ciphertexts among them, in batches of odd
// and even sizes.
func TestKernels(t *testing.T) {
	c, stream := card(t)
	t.Logf("%s, driver for CUDA %d, seed %d", c.Info.Name, c.API.Version(), *seed)
	for _, n := range []int{761, 653, 1277} {
		for _, op := range kernels.Operations() {
			for _, m := range kernels.Multiplications() {
				t.Run(fmt.Sprintf("%d/%s/%s", n, op, m), func(t *testing.T) {
					bind(t, c)
					total := *otherRows
					if m == kernels.MMA {
						total = *rows
					}
					checkRows(t, c, newSet(t, n), op, m, total, stream)
				})
			}
		}
	}
}

func checkRows(t *testing.T, c *bench.Card, set *kernels.Set, op kernels.Operation, m kernels.Multiplication, total int, stream driver.Stream) {
	sizes := []int{1, 2, 31, 33, 997, 4096, 65_537, 100_003}
	all := shapes(op, m)
	for i, done := 0, 0; done < total; i++ {
		batch := min(sizes[min(i, len(sizes)-1)], max(total-done, 1))
		o := kernels.Options{Multiplication: m, Shape: all[i%len(all)]}
		if o.Shape == kernels.One && batch > 4096 {
			o.Shape = kernels.Split // One was there for the small batches
		}
		table := 0
		if i%2 == 1 {
			table = map[kernels.Operation]int{kernels.Encaps: i / 8 % 2, kernels.Decaps: 1000}[op]
		}
		o.Matrix = op == kernels.Encaps && m == kernels.MMA && table == 1 && o.Shape != kernels.One && i%4 == 3
		k, err := bench.NewCase(set, op, batch, bench.CaseOptions{Table: table, Invalid: true}, *seed+uint64(i))
		check(t, err)
		check(t, c.RunCase(k, o, stream, i%2 == 0))
		if op == kernels.KeyGen { // the card's keys are k's now
			check(t, k.CheckKeys(8))
		}
		done += batch
	}
}

// Small batches in every shape: where the launches' geometry has its edges.
func TestBatchSizes(t *testing.T) {
	c, stream := card(t)
	for _, n := range []int{653, 761, 1277} {
		for _, op := range kernels.Operations() {
			for _, m := range kernels.Multiplications() {
				for _, shape := range shapes(op, m) {
					t.Run(fmt.Sprintf("%d/%s/%s/%s", n, op, m, shape), func(t *testing.T) {
						bind(t, c)
						for i, batch := range []int{1, 2, 3, 5, 31, 32, 33, 127, 131, 257, 1009, 2048} {
							k, err := bench.NewCase(newSet(t, n), op, batch, bench.CaseOptions{Invalid: true}, *seed+uint64(i))
							check(t, err)
							check(t, c.RunCase(k, kernels.Options{Multiplication: m, Shape: shape}, stream, true))
						}
					})
				}
			}
		}
	}
}

func measuredSets() []int {
	if *measureSets {
		return []int{761, 653, 1277}
	}
	return []int{761}
}

// mega is a rate in millions a second.
func mega(n int, d time.Duration) float64 { return float64(n) / d.Seconds() / 1e6 }

// BenchmarkResident prints operations a second with inputs and outputs in the device's memory.
func BenchmarkResident(b *testing.B) {
	c, stream := card(b)
	for _, n := range measuredSets() {
		for _, op := range kernels.Operations() {
			table := 0
			if op == kernels.Decaps {
				table = 4096
			}
			k, err := bench.NewCase(newSet(b, n), op, 8192, bench.CaseOptions{Table: table}, *seed)
			check(b, err)
			for _, m := range kernels.Multiplications() {
				for _, shape := range append([]kernels.Shape{kernels.DefaultShape}, shapes(op, m)...) {
					for _, batch := range []int{1, 64, 256, 1024, 2048, 4096, 8192, 16384, 50688, 65536, 101376, 262144} {
						if shape == kernels.One && batch > 16384 || m == kernels.Tiled && batch > 65536 {
							continue
						}
						b.Run(fmt.Sprintf("%d/%s/%s/%s/%d", n, op, m, shape, batch), func(b *testing.B) {
							bind(b, c)
							for range b.N {
								d, _, err := c.Resident(k, batch, kernels.Options{Multiplication: m, Shape: shape, Table: table}, bench.AllLaunches, stream)
								check(b, err)
								b.ReportMetric(mega(batch, d), "M/s")
								b.ReportMetric(float64(d.Nanoseconds())/1e3, "us/batch")
							}
							b.ReportMetric(0, "ns/op")
						})
					}
				}
			}
		}
	}
}

// BenchmarkLaunches prints where a batch's time goes, launch by launch, and so the products alone by multiplication.
func BenchmarkLaunches(b *testing.B) {
	c, stream := card(b)
	for _, n := range measuredSets() {
		for _, op := range kernels.Operations() {
			table := 0
			if op == kernels.Decaps {
				table = 4096
			}
			k, err := bench.NewCase(newSet(b, n), op, 8192, bench.CaseOptions{Table: table}, *seed)
			check(b, err)
			for _, m := range kernels.Multiplications() {
				for _, batch := range []int{1, 64, 1024, 8192, 65536} {
					o := kernels.Options{Multiplication: m, Shape: kernels.Split, Table: table}
					var p kernels.Plan
					check(b, k.Set.Plan(&p, op, batch, c.Device(), o))
					for launch, l := range p.Launches {
						b.Run(fmt.Sprintf("%d/%d/%s/%d", n, batch, l.Kernel, launch), func(b *testing.B) {
							bind(b, c)
							for range b.N {
								d, _, err := c.Resident(k, batch, o, launch, stream)
								check(b, err)
								b.ReportMetric(mega(batch, d), "M/s")
								b.ReportMetric(float64(d.Nanoseconds())/1e3, "us/batch")
							}
							b.ReportMetric(0, "ns/op")
						})
					}
				}
			}
		}
	}
}

// BenchmarkGroups prints the rate of key generation by the number of keys that share an inversion.
func BenchmarkGroups(b *testing.B) {
	c, stream := card(b)
	for _, n := range measuredSets() {
		k, err := bench.NewCase(newSet(b, n), kernels.KeyGen, 4096, bench.CaseOptions{}, *seed)
		check(b, err)
		for _, batch := range []int{16384, 65536, 262144} {
			for group := 64; group <= 1024; group *= 2 {
				b.Run(fmt.Sprintf("%d/%d/%d", n, batch, group), func(b *testing.B) {
					bind(b, c)
					for range b.N {
						d, _, err := c.Resident(k, batch, kernels.Options{Group: group}, bench.AllLaunches, stream)
						check(b, err)
						b.ReportMetric(mega(batch, d), "M/s")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkEndToEnd prints operations a second from pinned host memory to pinned host memory, beside a run of the same copies
// without kernels.
func BenchmarkEndToEnd(b *testing.B) {
	c, _ := card(b)
	for _, n := range measuredSets() {
		for _, op := range kernels.Operations() {
			table := 0
			if op == kernels.Decaps {
				table = 4096
			}
			k, err := bench.NewCase(newSet(b, n), op, 4096, bench.CaseOptions{Table: table}, *seed)
			check(b, err)
			for _, chunk := range []int{4096, 8192, 16384, 32768, 65536} {
				for _, shape := range []kernels.Shape{kernels.DefaultShape, kernels.Split} {
					b.Run(fmt.Sprintf("%d/%s/%s/%d", n, op, shape, chunk), func(b *testing.B) {
						bind(b, c)
						o := bench.EndToEndOptions{Options: kernels.Options{Shape: shape, Table: table}, Chunk: chunk, Rings: 5}
						for range b.N {
							copies := o
							copies.Copies = true
							limit, err := c.EndToEnd(k, *totalRows, copies)
							check(b, err)
							rate, err := c.EndToEnd(k, *totalRows, o)
							check(b, err)
							b.ReportMetric(rate/1e6, "M/s")
							b.ReportMetric(limit/1e6, "copies-M/s")
							b.ReportMetric(100*rate/limit, "%")
						}
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}

// BenchmarkLatency prints the time from host to host of small batches, by copies and with the host's memory mapped.
func BenchmarkLatency(b *testing.B) {
	c, stream := card(b)
	for _, n := range measuredSets() {
		for _, op := range kernels.Operations() {
			for _, batch := range []int{1, 16, 64, 256, 1024} {
				table := 0
				if op == kernels.Decaps {
					table = 64
				}
				k, err := bench.NewCase(newSet(b, n), op, batch, bench.CaseOptions{Table: table}, *seed)
				check(b, err)
				for _, shape := range shapes(op, kernels.MMA) {
					for _, mapped := range []bool{false, true} {
						name := "copied"
						if mapped {
							name = "mapped"
						}
						b.Run(fmt.Sprintf("%d/%s/%d/%s/%s", n, op, batch, shape, name), func(b *testing.B) {
							bind(b, c)
							for range b.N {
								middle, high, err := c.Latency(k, kernels.Options{Shape: shape, Table: table}, mapped, bench.LatencyRuns, stream)
								check(b, err)
								b.ReportMetric(float64(middle.Nanoseconds())/1e3, "us-median")
								b.ReportMetric(float64(high.Nanoseconds())/1e3, "us-p99")
							}
							b.ReportMetric(0, "ns/op")
						})
					}
				}
			}
		}
	}
}

// BenchmarkSharedKey prints the rate of Encaps to distinct public keys and, in either form of the product, to one.
func BenchmarkSharedKey(b *testing.B) {
	c, stream := card(b)
	for _, n := range measuredSets() {
		for name, o := range map[string]kernels.Options{"distinct": {}, "one": {Table: 1}, "matrix": {Table: 1, Matrix: true}} {
			k, err := bench.NewCase(newSet(b, n), kernels.Encaps, 8192, bench.CaseOptions{Table: o.Table}, *seed)
			check(b, err)
			o.Shape = kernels.Split
			for _, batch := range []int{64, 1024, 8192, 65536, 262144} {
				for part, launch := range map[string]int{"all": bench.AllLaunches, "product": 1} {
					b.Run(fmt.Sprintf("%d/%s/%s/%d", n, name, part, batch), func(b *testing.B) {
						bind(b, c)
						for range b.N {
							d, _, err := c.Resident(k, batch, o, launch, stream)
							check(b, err)
							b.ReportMetric(mega(batch, d), "M/s")
							b.ReportMetric(float64(d.Nanoseconds())/1e3, "us/batch")
						}
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}

// BenchmarkPTX holds the PTX of the folder that -kernels.ptx names against the embedded one: both are measured by turns, and what is
// printed is the time by each and the folder's as a percentage of the embedded's. Without a folder it shows what two measurements
// of the same code differ by.
func BenchmarkPTX(b *testing.B) {
	other, stream := card(b)
	embedded, err := bench.OpenCard("", 0)
	check(b, err)
	b.Cleanup(func() { check(b, embedded.Close()) })
	for _, n := range measuredSets() {
		for _, op := range kernels.Operations() {
			table := 0
			if op == kernels.Decaps {
				table = 4096
			}
			k, err := bench.NewCase(newSet(b, n), op, 4096, bench.CaseOptions{Table: table}, *seed)
			check(b, err)
			run := func(name string, measure func(c *bench.Card) (time.Duration, error)) {
				b.Run(fmt.Sprintf("%d/%s/%s", n, op, name), func(b *testing.B) {
					bind(b, other)
					for range b.N {
						before, after, err := byTurns(embedded, other, measure)
						check(b, err)
						b.ReportMetric(float64(before.Nanoseconds())/1e3, "us-embedded")
						b.ReportMetric(float64(after.Nanoseconds())/1e3, "us-folder")
						b.ReportMetric(100*float64(after)/float64(before), "%")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
			for _, m := range kernels.Multiplications() {
				o := kernels.Options{Multiplication: m, Table: table}
				for _, batch := range []int{64, 16384, 65536} {
					if m == kernels.Tiled && batch == 65536 {
						continue // takes long, and shows nothing that fewer do not
					}
					run(fmt.Sprintf("resident/%s/%d", m, batch), func(c *bench.Card) (time.Duration, error) {
						d, _, err := c.Resident(k, batch, o, bench.AllLaunches, stream)
						return d, err
					})
				}
			}
			o := kernels.Options{Shape: kernels.Split, Table: table}
			const batch = 65536
			var p kernels.Plan
			check(b, k.Set.Plan(&p, op, batch, other.Device(), o))
			for launch, l := range p.Launches {
				run(fmt.Sprintf("launch/%d/%s", launch, l.Kernel), func(c *bench.Card) (time.Duration, error) {
					d, _, err := c.Resident(k, batch, o, launch, stream)
					return d, err
				})
			}
			run("endtoend/32768", func(c *bench.Card) (time.Duration, error) {
				rate, err := c.EndToEnd(k, *totalRows, bench.EndToEndOptions{Options: kernels.Options{Table: table}, Chunk: 32768, Rings: 5})
				return time.Duration(32768 / max(rate, 1) * float64(time.Second)), err
			})
			few, err := bench.NewCase(k.Set, op, 64, bench.CaseOptions{Table: min(table, 64)}, *seed)
			check(b, err)
			run("latency/64", func(c *bench.Card) (time.Duration, error) {
				d, _, err := c.Latency(few, kernels.Options{Table: min(table, 64)}, true, bench.LatencyRuns, stream)
				return d, err
			})
		}
	}
}

// byTurns measures two cards three times each, one after the other, and returns the medians.
func byTurns(first, second *bench.Card, measure func(c *bench.Card) (time.Duration, error)) (time.Duration, time.Duration, error) {
	var times [2][]time.Duration
	for range 3 {
		for i, c := range []*bench.Card{first, second} {
			d, err := measure(c)
			if err != nil {
				return 0, 0, err
			}
			times[i] = append(times[i], d)
		}
	}
	for _, t := range times {
		slices.Sort(t)
	}
	return times[0][1], times[1][1], nil
}
