//go:build gputest

package kernels_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

var (
	curvesCases  = flag.Int("curves.n", 1<<20, "random cases to hold against the CPU")
	curvesMax    = flag.Int("curves.max", 1<<18, "the largest batch to measure")
	curvesDevice = flag.Int("curves.device", 0, "the CUDA device")
	curvesPTX    = flag.String("curves.ptx", "", "a folder of PTX files to run instead of the embedded ones: kernels/build-nvcc.sh makes one")
)

// curvesCard opens the card for a test, with its host threads spinning while they wait.
func curvesCard(t *testing.T) (*bench.Card, driver.Stream) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	card, err := bench.OpenCard("", *curvesDevice)
	try(t, err)
	card.UsePTX(*curvesPTX)
	try(t, card.API.PrimaryCtxSetFlags(*curvesDevice, driver.ScheduleSpin))
	stream, err := card.API.StreamCreate(0)
	try(t, err)
	t.Cleanup(func() {
		try(t, card.API.StreamDestroy(stream))
		try(t, card.Close())
	})
	return card, stream
}

// oddBatches are sizes about the edges of warps, blocks and the shapes' bounds.
var oddBatches = []int{1, 2, 3, 7, 31, 33, 127, 129, 257, 1021, 4099}

func TestX25519OnCard(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	for _, shape := range kernels.X25519Shapes() {
		for _, op := range kernels.X25519Operations() {
			for _, n := range oddBatches {
				checkX25519(t, card, stream, op, shape, randomX25519(rng, n))
			}
			checkX25519(t, card, stream, op, shape, edgesX25519(rng))
		}
		checkX25519Vectors(t, card, stream, shape, 1000)
	}
}

// Both halves of an exchange, in every shape of X25519 and in the shapes of choice.
func TestExchangesOnCard(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	for _, n := range []int{653, 761, 1277} {
		set, err := kernels.NewSet(n)
		try(t, err)
		for _, x := range kernels.Exchanges() {
			for _, shape := range append(kernels.X25519Shapes(), kernels.X25519DefaultShape) {
				for _, batch := range oddBatches {
					checkExchange(t, card, stream, set, x, randomX25519(rng, batch), rng.Uint64(), kernels.ExchangeOptions{X25519: shape})
				}
				checkExchange(t, card, stream, set, x, edgesX25519(rng), rng.Uint64(), kernels.ExchangeOptions{X25519: shape})
			}
		}
	}
}

func TestP256OnCard(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	for _, shape := range kernels.P256Shapes() {
		key := newP256Key(t, randomNumber(rng))
		for _, n := range oddBatches {
			checkP256(t, card, stream, shape, key, randomP256(rng, n))
		}
		checkP256(t, card, stream, shape, key, edgesP256(rng))
		checkP256BadNonces(t, card, stream, shape, key, rng)
		checkP256Faults(t, card, stream, shape, key, rng, 1021)
	}
}

// A million random operations on every shape.
func TestX25519Million(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	const chunk = 1 << 16
	for done := 0; done < *curvesCases; done += chunk {
		cases := randomX25519(rng, min(chunk, *curvesCases-done))
		want := expectX25519(t, cases)
		for _, shape := range kernels.X25519Shapes() {
			r := newX25519Run(t, card, stream, kernels.X25519Pair, shape, len(cases))
			r.fill(t, cases)
			try(t, r.launch())
			output, status := r.rows(t)
			r.free(t)
			checkX25519Rows(t, r.plan, cases, want, output, status)
		}
	}
	t.Logf("%d operations, each on every shape", *curvesCases)
}

func TestP256Million(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	const chunk = 1 << 16
	for done := 0; done < *curvesCases; done += chunk {
		key := newP256Key(t, randomNumber(rng))
		cases := randomP256(rng, min(chunk, *curvesCases-done))
		key.expectAll(t, cases)
		for _, shape := range kernels.P256Shapes() {
			r := newP256Run(t, card, stream, shape, key, len(cases))
			r.fill(t, cases)
			try(t, r.launch(r.plan.Launches[:]...))
			r.checkRows(t, cases)
			r.free(t)
		}
	}
	t.Logf("%d signatures, each on every shape", *curvesCases)
}

// ---- Measurements, for reading: nothing fails by the time it takes ----

// deviceTime returns the median time that what launch puts into the stream takes on the device.
func deviceTime(t *testing.T, card *bench.Card, stream driver.Stream, launch func() error) time.Duration {
	t.Helper()
	from, err := card.API.EventCreate(0)
	try(t, err)
	to, err := card.API.EventCreate(0)
	try(t, err)
	var all []time.Duration
	for i := range 12 {
		try(t, card.API.EventRecord(from, stream))
		try(t, launch())
		try(t, card.API.EventRecord(to, stream))
		try(t, card.API.EventSynchronize(to))
		d, err := card.API.EventElapsed(from, to)
		try(t, err)
		if i > 0 { // the first one loads the code
			all = append(all, d)
		}
	}
	try(t, errors.Join(card.API.EventDestroy(from), card.API.EventDestroy(to)))
	slices.Sort(all)
	return all[len(all)/2]
}

// hostTime returns the median and the 90th percentile of the time from the launch to the host's seeing its end.
func hostTime(t *testing.T, card *bench.Card, streams []driver.Stream, launch func() error) (median, p90 time.Duration) {
	t.Helper()
	var all []time.Duration
	for range 51 {
		start := time.Now()
		try(t, launch())
		for _, s := range streams {
			try(t, card.API.StreamSynchronize(s))
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*9/10]
}

func microseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Microsecond))
}

func perSecond(n int, d time.Duration) string {
	return fmt.Sprintf("%.2f M/s", float64(n)/d.Seconds()/1e6)
}

// describe prints what the compiler made of a kernel.
func describe(t *testing.T, card *bench.Card, l kernels.Launch) {
	t.Helper()
	f, err := card.Function(l.Module, l.Kernel, l.Shared)
	try(t, err)
	info, err := card.API.FunctionInfo(f)
	try(t, err)
	blocks, err := card.API.Occupancy(f, int(l.Block), l.Shared)
	try(t, err)
	fmt.Printf("%-20s %3d registers, %5d bytes shared, %3d local, %2d blocks a multiprocessor\n", l.Kernel, info.Registers, info.SharedBytes, info.LocalBytes, blocks)
}

// upTo returns those of the batches that are to be measured.
func upTo(batches ...int) []int {
	return slices.DeleteFunc(batches, func(n int) bool { return n > *curvesMax })
}

// residentBatches are the sizes to measure on the device alone.
func residentBatches() []int {
	return upTo(1, 64, 256, 512, 1<<10, 1<<11, 1<<12, 6<<10, 1<<13, 10<<10, 1<<14, 1<<15, 1<<16, 1<<18)
}

// TestMeasureX25519 prints device-resident times of every shape, and times from host to host.
func TestMeasureX25519(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	fmt.Printf("%s, %d multiprocessors\n", card.Info.Name, card.Info.Multiprocessors)
	const onCPU = 200
	cases := randomX25519(rng, max(onCPU, *curvesMax))
	start := time.Now()
	for _, c := range cases[:onCPU] {
		private, err := ecdh.X25519().NewPrivateKey(c.private[:])
		try(t, err)
		peer, err := ecdh.X25519().NewPublicKey(c.peer[:])
		try(t, err)
		private.PublicKey()
		_, err = private.ECDH(peer)
		try(t, err)
	}
	cpu := time.Since(start) / onCPU
	fmt.Printf("crypto/ecdh on one core: %s us a pair\n", microseconds(cpu))

	for _, shape := range kernels.X25519Shapes() {
		plan, err := kernels.PlanX25519(kernels.X25519Pair, 1, card.Device(), shape)
		try(t, err)
		describe(t, card, plan.Launch)
	}
	for _, op := range kernels.X25519Operations() {
		for _, n := range residentBatches() {
			fmt.Printf("x25519 %-6s device-resident n=%6d", op, n)
			for _, shape := range kernels.X25519Shapes() {
				if shape == kernels.X25519Warp && n > 1<<12 {
					continue
				}
				r := newX25519Run(t, card, stream, op, shape, n)
				r.fill(t, cases[:n])
				d := deviceTime(t, card, stream, r.launch)
				r.free(t)
				fmt.Printf("  %s %s us %s", shape, microseconds(d), perSecond(n, d))
			}
			fmt.Println()
		}
	}
	for _, n := range upTo(1, 16, 64, 256, 512, 1024, 2048, 4096) {
		for _, shape := range kernels.X25519Shapes() {
			plan, err := kernels.PlanX25519(kernels.X25519Pair, n, card.Device(), shape)
			try(t, err)
			if shape == kernels.X25519Thread {
				continue
			}
			z := newZeroCopy(t, card, map[kernels.Buffer]int{kernels.Input: plan.InputSize, kernels.Output: plan.OutputSize, kernels.Status: plan.StatusSize})
			for i, c := range cases[:n] {
				copy(z.memory[kernels.Input][i*64:], c.private[:])
				copy(z.memory[kernels.Input][i*64+32:], c.peer[:])
			}
			p := &kernels.Plan{Launches: []kernels.Launch{plan.Launch}}
			median, p90 := hostTime(t, card, []driver.Stream{stream}, func() error { return card.Run(p, &z.buffers, stream) })
			checkX25519Rows(t, plan, cases[:n], expectX25519(t, cases[:n]), z.memory[kernels.Output], z.memory[kernels.Status])
			z.free(t)
			fmt.Printf("x25519 pair host to host n=%5d %-6s median %s us, p90 %s us; the CPU takes %.1f times as long\n", n, shape, microseconds(median), microseconds(p90),
				float64(n)*float64(cpu)/float64(median))
		}
	}
	measureBeside(t, card, stream, cases)
}

// measureBeside times the server's side of an exchange: the KEM's encapsulations on one stream, X25519 on another.
func measureBeside(t *testing.T, card *bench.Card, stream driver.Stream, cases []x25519Case) {
	t.Helper()
	set, err := kernels.NewSet(761)
	try(t, err)
	second, err := card.API.StreamCreate(0)
	try(t, err)
	for _, n := range upTo(1, 64, 256, 1024, 4096) {
		k, err := bench.NewCase(set, kernels.Encaps, n, bench.CaseOptions{}, *curvesSeed)
		try(t, err)
		kem, err := card.NewBatch(set, kernels.Encaps, n, kernels.Options{}, second)
		try(t, err)
		try(t, card.API.CopyToDevice(kem.Buffers[kernels.Input], k.Input, second))
		r := newX25519Run(t, card, stream, kernels.X25519Pair, kernels.X25519DefaultShape, n)
		r.fill(t, cases[:n])
		try(t, card.API.CtxSynchronize())
		streams := []driver.Stream{stream, second}
		alone, _ := hostTime(t, card, streams, r.launch)
		encaps, _ := hostTime(t, card, streams, func() error { return kem.Run(second) })
		both, p90 := hostTime(t, card, streams, func() error { return errors.Join(r.launch(), kem.Run(second)) })
		fmt.Printf("n=%5d x25519 pair %s us, encaps-761 %s us, both on two streams %s us (p90 %s)\n", n, microseconds(alone), microseconds(encaps), microseconds(both), microseconds(p90))
		r.free(t)
		try(t, kem.Free())
	}
	try(t, card.API.StreamDestroy(second))
}

// TestMeasureP256 does the same for signatures.
func TestMeasureP256(t *testing.T) {
	card, stream := curvesCard(t)
	rng := curvesRand(t)
	key := newP256Key(t, randomNumber(rng))
	cases := randomP256(rng, *curvesMax)
	for _, shape := range kernels.P256Shapes() {
		plan, err := kernels.PlanP256(1, card.Device(), shape)
		try(t, err)
		for _, l := range plan.Launches {
			describe(t, card, l)
		}
	}
	for _, n := range residentBatches() {
		fmt.Printf("p256 device-resident n=%6d", n)
		for _, shape := range kernels.P256Shapes() {
			r := newP256Run(t, card, stream, shape, key, n)
			r.fill(t, cases[:n])
			sign := deviceTime(t, card, stream, func() error { return r.launch(r.plan.Launches[0]) })
			both := deviceTime(t, card, stream, func() error { return r.launch(r.plan.Launches[:]...) })
			r.free(t)
			fmt.Printf("  %s: sign %s us %s, and check %s us %s", shape, microseconds(sign), perSecond(n, sign), microseconds(both), perSecond(n, both))
		}
		fmt.Println()
	}
	batches := upTo(1, 16, 64, 256, 1024, 4096)
	key.expectAll(t, cases[:slices.Max(batches)])
	for _, n := range batches {
		for _, shape := range kernels.P256Shapes() {
			r := newP256Run(t, card, stream, shape, key, n)
			plan := r.plan
			z := newZeroCopy(t, card, map[kernels.Buffer]int{kernels.Input: plan.InputSize, kernels.Output: plan.OutputSize, kernels.Status: plan.StatusSize})
			for i, c := range cases[:n] {
				c.nonce.FillBytes(z.memory[kernels.Input][i*64 : i*64+32])
				c.digest.FillBytes(z.memory[kernels.Input][i*64+32 : i*64+64])
			}
			z.buffers[kernels.Table], z.buffers[kernels.Scratch] = r.buffers[kernels.Table], r.buffers[kernels.Scratch]
			var medians [2]time.Duration
			for i := range medians {
				p := &kernels.Plan{Launches: plan.Launches[: i+1 : i+1]}
				medians[i], _ = hostTime(t, card, []driver.Stream{stream}, func() error { return card.Run(p, &z.buffers, stream) })
			}
			for i, c := range cases[:n] {
				row := z.memory[kernels.Output][i*64 : i*64+64]
				if binary.LittleEndian.Uint32(z.memory[kernels.Status][4*i:]) != kernels.P256Signed || !bytes.Equal(row[:32], c.r.FillBytes(make([]byte, 32))) ||
					!bytes.Equal(row[32:], c.s.FillBytes(make([]byte, 32))) {
					t.Fatalf("n=%d, shape %s: signature %d is wrong", n, shape, i)
				}
			}
			z.free(t)
			r.free(t)
			fmt.Printf("p256 host to host n=%5d %-6s sign %s us, sign and check %s us\n", n, shape, microseconds(medians[0]), microseconds(medians[1]))
		}
	}
}

// zeroCopy is pinned host memory that kernels use in place.
type zeroCopy struct {
	card    *bench.Card
	memory  map[kernels.Buffer][]byte
	buffers bench.Buffers
}

func newZeroCopy(t *testing.T, card *bench.Card, sizes map[kernels.Buffer]int) *zeroCopy {
	t.Helper()
	z := &zeroCopy{card: card, memory: map[kernels.Buffer][]byte{}}
	for buffer, size := range sizes {
		b, err := card.API.HostAlloc(size)
		try(t, err)
		z.memory[buffer] = b
		z.buffers[buffer], err = card.API.HostDevicePtr(b)
		try(t, err)
	}
	return z
}

func (z *zeroCopy) free(t *testing.T) {
	t.Helper()
	for _, b := range z.memory {
		try(t, z.card.API.HostFree(b))
	}
}
