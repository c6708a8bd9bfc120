//go:build sim || gputest

package testkernels

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// A Harness is a device with these kernels loaded, current on the test's thread: a card, or the simulator.
type Harness struct {
	T      testing.TB
	API    driver.API
	Sim    *simctl.Sim // nil on a card
	Stream driver.Stream
	Module driver.Module
}

// New opens device 0 for a test and closes it afterwards; on the simulator it also checks that nothing was left behind.
// The test's goroutine is locked to its thread.
func New(t testing.TB) *Harness {
	t.Helper()
	h := Spoilable(t)
	t.Cleanup(func() {
		h.Check(h.API.CtxSetCurrent(0))
		h.Check(h.API.PrimaryCtxRelease(0))
		if h.Sim != nil {
			if st := h.Sim.Stats(0); st.Leaks() {
				t.Errorf("left behind: %+v", st)
			}
		}
	})
	return h
}

// Spoilable is New for a test that ends the context itself.
func Spoilable(t testing.TB) *Harness {
	t.Helper()
	api, sim := Open(t)
	h := &Harness{T: t, API: api, Sim: sim}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	ctx, err := api.PrimaryCtxRetain(0)
	h.Check(err)
	h.Check(api.CtxSetCurrent(ctx))
	h.Stream, err = api.StreamCreate(0)
	h.Check(err)
	h.Module, err = api.ModuleLoad(PTX)
	h.Check(err)
	return h
}

// Check ends the test on an error.
func (h *Harness) Check(err error) {
	h.T.Helper()
	if err != nil {
		if h.Sim != nil {
			h.T.Fatalf("%v (%s)", err, h.Sim.LastFault())
		}
		h.T.Fatal(err)
	}
}

// Function finds a kernel.
func (h *Harness) Function(name string) driver.Function {
	h.T.Helper()
	f, err := h.API.ModuleFunction(h.Module, name)
	h.Check(err)
	return f
}

// Alloc returns n bytes of device memory. They are freed with the context.
func (h *Harness) Alloc(n int) driver.DevicePtr {
	h.T.Helper()
	p, err := h.API.MemAlloc(n)
	h.Check(err)
	return p
}

// Upload returns device memory with these words.
func (h *Harness) Upload(words []uint32) driver.DevicePtr {
	h.T.Helper()
	p := h.Alloc(4 * len(words))
	h.Check(h.API.CopyToDevice(p, Bytes(words), h.Stream))
	return p
}

// Download returns n words of device memory, after all work in the stream.
func (h *Harness) Download(p driver.DevicePtr, n int) []uint32 {
	h.T.Helper()
	b := make([]byte, 4*n)
	h.Check(h.API.CopyToHost(b, p, h.Stream))
	h.Check(h.API.StreamSynchronize(h.Stream))
	return Words(b)
}

// Launch runs a kernel by name.
func (h *Harness) Launch(name string, shape driver.Shape, params *driver.Params) error {
	h.T.Helper()
	return h.API.Launch(h.Function(name), shape, params, h.Stream)
}

// Bytes and Words convert between words and their little-endian bytes.
func Bytes(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func Words(b []byte) []uint32 {
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return words
}

// RandomWords returns n words from a seed that it logs, among them some with extreme values.
func RandomWords(t testing.TB, n int) []uint32 {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	extreme := []uint32{0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x80808080, 0x7f7f7f7f}
	words := make([]uint32, n)
	for i := range words {
		words[i] = r.Uint32()
		if r.IntN(8) == 0 {
			words[i] = extreme[r.IntN(len(extreme))]
		}
	}
	return words
}
