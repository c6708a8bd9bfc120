//go:build (sim || gputest) && linux && !nogpu

package provider

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

var (
	deviceRows  = flag.Int("card.devicerows", onCardElse(2_000_000, 16), "operations of a Bulk, for each device, to measure many devices with")
	deviceSteps = flag.String("card.devices", "1,2,4,8", "on how many devices to measure; what this machine does not have is left out")
	placement   = flag.String("card.placement", "", `where threads and memory are: "" as it comes, "interleave" memory over all NUMA nodes, or a node's number for both`)
)

// cardDevices returns this machine's devices as the driver numbers them.
func cardDevices(b *testing.B, cfg Config) []driver.DeviceInfo {
	b.Helper()
	api, err := driver.Open(cfg.GPU.Library)
	if err != nil {
		b.Fatal(err)
	}
	n, err := api.DeviceCount()
	if err != nil {
		b.Fatal(err)
	}
	all := make([]driver.DeviceInfo, n)
	for i := range all {
		if all[i], err = api.DeviceInfo(i); err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// steps returns the numbers of devices to measure, of those there are.
func steps(b *testing.B, devices int) (counts []int) {
	b.Helper()
	for _, text := range strings.Split(*deviceSteps, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("-card.devices=%s: %q is no number of devices", *deviceSteps, text)
		}
		if n <= devices {
			counts = append(counts, n)
		}
	}
	return counts
}

// numaNode returns the NUMA node that a PCI device is at; -1 is the kernel's for not known.
func numaNode(pci string) string {
	text, err := os.ReadFile(filepath.Join("/sys/bus/pci/devices", strings.ToLower(pci), "numa_node"))
	if err != nil {
		return "not known"
	}
	return strings.TrimSpace(string(text))
}

// BenchmarkCardDevices reports the rate of RunBulk on the first 1, 2, 4 and 8 devices, what that is of the rate on the first of these
// numbers, and beside it that of the same copies without kernels on the same devices at once: where the copies do
// not grow either, the limit is PCIe or the host's memory, and where they do, it is in threads and what they do, of which the processors
// that were busy tell.
func BenchmarkCardDevices(b *testing.B) {
	place(b, *placement)
	cfg := cardConfig(b)
	devices := cardDevices(b, cfg)
	b.Logf("driver.Open uses %s; placement %q; %s", driver.Implementation(), *placement, processors())
	for i, d := range devices {
		b.Logf("device %d: %s, %s, NUMA node %s", i, d.Name, d.PCIBusID, numaNode(d.PCIBusID))
	}
	counts := steps(b, len(devices))
	s := cardSchemes(cfg)[len(cardSchemes(cfg))/2]
	for _, op := range []BulkOperation{BulkEncapsulate, BulkDecapsulate, BulkGenerateKeys} {
		single, singleCopies := 0.0, 0.0
		for _, n := range counts {
			b.Run(fmt.Sprintf("%s/%d", bulkOperations[op], n), func(b *testing.B) {
				cfg.GPU.Devices = firstDevices(n)
				for range b.N {
					rates := onDevices(b, cfg, s, op, n**deviceRows)
					copies := copyRate(b, cfg, s, op)
					if single == 0 {
						single, singleCopies = rates.seeded, copies
					}
					b.ReportMetric(rates.seeded/1e6, "M/s")
					b.ReportMetric(rates.seeded/single, "x")
					b.ReportMetric(copies/1e6, "copies-M/s")
					b.ReportMetric(copies/singleCopies, "copies-x")
					b.ReportMetric(100*rates.seeded/copies, "%of-copies")
					b.ReportMetric(rates.processors, "busy-cpus")
					if rates.drawn > 0 {
						b.ReportMetric(rates.drawn/1e6, "seeds-drawn-M/s")
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkCardCopies tells what bounds copies on several devices: copies to the devices, to the host and both at once, with a set of host
// memory that stays in the processors' cache and one that does not, and what the processors copy from memory to memory. Where many devices do as well
// as one with the small set and not with the large one, the host's memory is the limit; where they do with neither, PCIe or what
// joins it to the processors is.
func BenchmarkCardCopies(b *testing.B) {
	place(b, *placement)
	cfg := cardConfig(b)
	counts := steps(b, len(cardDevices(b, cfg)))
	size := onCardElse(2<<20, 1<<10)
	for _, set := range []struct {
		name  string
		bytes int
	}{{"cached", 2 * size}, {"uncached", onCardElse(2<<30, 1<<14)}} {
		for _, way := range []struct {
			name    string
			in, out bool
		}{{"to-device", true, false}, {"to-host", false, true}, {"both", true, true}} {
			single := 0.0
			for _, n := range counts {
				b.Run(fmt.Sprintf("%s/%s/%d", set.name, way.name, n), func(b *testing.B) {
					o := bench.CopyOptions{In: way.in, Out: way.out, Set: set.bytes, Size: size, Total: onCardElse(8<<30, 1<<15)}
					for range b.N {
						rate, err := bench.CopyOn(cfg.GPU.Library, firstDevices(n), o)
						if err != nil {
							b.Fatal(err)
						}
						if single == 0 {
							single = rate
						}
						b.ReportMetric(rate/1e9, "GB/s")
						b.ReportMetric(rate/single, "x")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
	b.Run("processors", func(b *testing.B) {
		for range b.N {
			rate := bench.HostCopy(onCardElse(256<<20, 1<<16), 4)
			b.ReportMetric(rate/1e9, "GB/s") // copied: as many are read, and as many written
		}
		b.ReportMetric(0, "ns/op")
	})
}

// firstDevices returns the numbers of the first n devices.
func firstDevices(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// bulkRates are operations a second, with the seeds there and drawn from crypto/rand (0 where there are none), and the processors that were
// busy meanwhile in the first case.
type bulkRates struct{ seeded, drawn, processors float64 }

// onDevices measures RunBulk on the devices of a configuration: the median of three.
func onDevices(b *testing.B, cfg Config, s *ctruprime.Scheme, op BulkOperation, rows int) (r bulkRates) {
	b.Helper()
	k := newBulkRun(b, cfg, s, op, rows)
	k.run(b) // makes the devices' memory
	r.seeded, r.processors = k.median(b)
	if _, size := k.bulk.seedAt(); size > 0 {
		k.bulk.Seeded = false
		r.drawn, _ = k.median(b)
	}
	st := k.provider.Stats().GPU
	if st.Faulted != 0 || st.Mismatches != 0 {
		b.Errorf("%+v", st)
	}
	for _, d := range st.Devices {
		b.Logf("device %d computed %d rows", d.Number, d.JobRows)
	}
	b.Logf("the input is on NUMA nodes %s", pagesByNode(k.bulk.Input))
	return r
}

// A bulkRun is a Bulk with a provider to run it.
type bulkRun struct {
	provider *Provider
	bulk     *Bulk
}

func newBulkRun(b *testing.B, cfg Config, s *ctruprime.Scheme, op BulkOperation, rows int) *bulkRun {
	b.Helper()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	p, err := Open(cfg)
	check(err)
	b.Cleanup(func() { check(p.Close()) })
	c, err := bench.NewCase(newSet(b, s), kernelOperation(op), onCardElse(benchKeys, 4), bench.CaseOptions{Table: bulkTable(op)}, 1)
	check(err)
	k := &Bulk{Scheme: s, Operation: op, Rows: rows, Seeded: true}
	if op == BulkDecapsulate {
		k.Keys, err = p.NewBulkKeys(s, op, c.Table)
		check(err)
		b.Cleanup(func() { check(k.Keys.Close()) })
	}
	memory := func(n int) []byte {
		m, err := p.AllocPinned(n)
		check(err)
		b.Cleanup(func() { check(m.Free()) })
		return m.Bytes
	}
	k.Input, k.Output, k.Status = memory(rows*k.InputSize()), memory(rows*k.OutputSize()), memory(4*rows)
	fillRows(k.Input, c.Input)
	if k.Keys != nil {
		k.Index = memory(4 * rows)
		fillRows(k.Index, c.Index)
	}
	return &bulkRun{p, k}
}

// run returns the rate in operations a second, and how many processors were busy.
func (k *bulkRun) run(b *testing.B) (rate, processors float64) {
	b.Helper()
	used, start := processorTime(), time.Now()
	if err := k.provider.RunBulk(b.Context(), k.bulk); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start).Seconds()
	return float64(k.bulk.Rows) / took, (processorTime() - used).Seconds() / took
}

func (k *bulkRun) median(b *testing.B) (rate, processors float64) {
	b.Helper()
	type result struct{ rate, processors float64 }
	var all []result
	for range 3 {
		rate, processors := k.run(b)
		all = append(all, result{rate, processors})
	}
	slices.SortFunc(all, func(a, b result) int { return int(a.rate - b.rate) })
	return all[1].rate, all[1].processors
}

// copyRate returns operations a second of the copies alone, on all of a configuration's devices at once.
func copyRate(b *testing.B, cfg Config, s *ctruprime.Scheme, op BulkOperation) float64 {
	b.Helper()
	c, err := bench.NewCase(newSet(b, s), kernelOperation(op), onCardElse(benchKeys, 4), bench.CaseOptions{Table: bulkTable(op)}, 1)
	if err != nil {
		b.Fatal(err)
	}
	o := bench.EndToEndOptions{Options: kernels.Options{Table: bulkTable(op)}, Chunk: onCardElse(1<<15, 4), Rings: 5, Copies: true}
	rate, err := bench.EndToEndOn(cfg.GPU.Library, cfg.GPU.Devices, c, *deviceRows, o)
	if err != nil {
		b.Fatal(err)
	}
	return rate
}
