package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// A Card is a device with its primary context current on the calling thread. Its methods are for that thread, which the
// caller has locked (runtime.LockOSThread), and for others, one at a time, that have called Bind.
type Card struct {
	API    driver.API
	Info   driver.DeviceInfo
	device int
	ctx    driver.Context
	folder string // of PTX files to use instead of the embedded ones; empty for those

	modules   map[kernels.Module]driver.Module
	functions map[kernel]function
	params    driver.Params
}

type kernel struct {
	module kernels.Module
	name   string
}

type function struct {
	handle driver.Function
	shared int // dynamic shared memory allowed so far
}

// OpenCard opens a device of the driver library at path (see driver.Open).
func OpenCard(path string, device int) (*Card, error) {
	api, err := driver.Open(path)
	if err != nil {
		return nil, err
	}
	c := &Card{API: api, device: device, modules: make(map[kernels.Module]driver.Module), functions: make(map[kernel]function)}
	if c.Info, err = api.DeviceInfo(device); err != nil {
		return nil, err
	}
	if c.ctx, err = api.PrimaryCtxRetain(device); err != nil {
		return nil, err
	}
	if err := c.Bind(); err != nil {
		return nil, errors.Join(err, api.PrimaryCtxRelease(device))
	}
	return c, nil
}

// Bind makes the card's context current on the calling thread, which the caller has locked.
func (c *Card) Bind() error { return c.API.CtxSetCurrent(c.ctx) }

// Close unloads the modules and gives the context back.
func (c *Card) Close() error {
	var errs []error
	for _, m := range c.modules {
		errs = append(errs, c.API.ModuleUnload(m))
	}
	return errors.Join(append(errs, c.API.CtxSetCurrent(0), c.API.PrimaryCtxRelease(c.device))...)
}

// Device is what plans have to know of the card.
func (c *Card) Device() kernels.Device {
	return kernels.Device{Multiprocessors: c.Info.Multiprocessors, Shared: c.Info.MaxSharedPerBlock}
}

// UsePTX has modules that are loaded from now on come from the files NAME.ptx of a folder, where kernels/build-nvcc.sh puts another
// compiler's, instead of the embedded texts: the empty string stands for those. What is loaded stays loaded, so that a card that
// has run plans is closed and another opened.
func (c *Card) UsePTX(folder string) { c.folder = folder }

// text returns a module's PTX.
func (c *Card) text(m kernels.Module) ([]byte, error) {
	if c.folder == "" {
		return m.PTX()
	}
	text, err := os.ReadFile(filepath.Join(c.folder, m.Name()+".ptx"))
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return text, nil
}

// Load compiles a module, once.
func (c *Card) Load(m kernels.Module) error {
	if _, ok := c.modules[m]; ok {
		return nil
	}
	text, err := c.text(m)
	if err != nil {
		return err
	}
	if c.modules[m], err = c.API.ModuleLoad(text); err != nil {
		delete(c.modules, m)
		return fmt.Errorf("bench: module %s: %w", m.Name(), err)
	}
	return nil
}

// Function returns a kernel, allowed as much dynamic shared memory as is asked for.
func (c *Card) Function(m kernels.Module, name string, shared int) (driver.Function, error) {
	key := kernel{m, name}
	f, ok := c.functions[key]
	if !ok {
		if err := c.Load(m); err != nil {
			return 0, err
		}
		handle, err := c.API.ModuleFunction(c.modules[m], name)
		if err != nil {
			return 0, fmt.Errorf("bench: kernel %s: %w", name, err)
		}
		f = function{handle, 48 << 10}
		c.functions[key] = f
	}
	if shared > f.shared {
		if err := c.API.SetMaxDynamicShared(f.handle, shared); err != nil {
			return 0, fmt.Errorf("bench: kernel %s with %d bytes of shared memory: %w", name, shared, err)
		}
		f.shared = shared
		c.functions[key] = f
	}
	return f.handle, nil
}

// Buffers are the addresses of a plan's buffers.
type Buffers [kernels.Index + 1]driver.DevicePtr

// Run puts a plan's launches into a stream, those first that could run beside the others.
func (c *Card) Run(p *kernels.Plan, b *Buffers, s driver.Stream) error {
	if err := c.launch(p.Beside, b, s); err != nil {
		return err
	}
	return c.launch(p.Launches, b, s)
}

func (c *Card) launch(launches []kernels.Launch, b *Buffers, s driver.Stream) error {
	for i := range launches {
		l := &launches[i]
		f, err := c.Function(l.Module, l.Kernel, l.Shared)
		if err != nil {
			return err
		}
		c.params.Reset()
		for _, a := range l.Args() {
			if a.Pointer {
				c.params.Ptr(b[a.Buffer].Offset(a.Offset))
			} else {
				c.params.Uint32(a.Value)
			}
		}
		shape := driver.Shape{Grid: driver.Dim{X: l.Grid[0], Y: l.Grid[1]}, Block: driver.Dim{X: l.Block}, Shared: l.Shared}
		if err := c.API.Launch(f, shape, &c.params, s); err != nil {
			return fmt.Errorf("bench: launch of %s: %w", l.Kernel, err)
		}
	}
	return nil
}

// A Batch is device memory for a plan, and what it takes and gives on the host.
type Batch struct {
	Plan    kernels.Plan
	Buffers Buffers
	card    *Card
}

// NewBatch plans n operations and allocates their buffers, the table's and the index's too if there is one. The scratch memory and the
// outputs are filled with a pattern, so that what is not written shows.
func (c *Card) NewBatch(set *kernels.Set, op kernels.Operation, n int, o kernels.Options, s driver.Stream) (*Batch, error) {
	b := &Batch{card: c}
	if err := set.Plan(&b.Plan, op, n, c.Device(), o); err != nil {
		return nil, err
	}
	sizes := [...]int{
		kernels.Input: b.Plan.InputSize, kernels.Output: b.Plan.OutputSize, kernels.Status: b.Plan.StatusSize, kernels.Scratch: b.Plan.ScratchSize,
		kernels.Table: o.Table * set.KeySize(op), kernels.Index: 0,
	}
	if o.Table > 0 && op == kernels.Decaps {
		sizes[kernels.Index] = 4 * n
	}
	for i, size := range sizes {
		if size == 0 {
			continue
		}
		p, err := c.API.MemAlloc(size)
		if err != nil {
			return nil, errors.Join(err, b.Free())
		}
		b.Buffers[i] = p
		if kernels.Buffer(i) == kernels.Output || kernels.Buffer(i) == kernels.Status {
			if err := c.API.MemsetAsync(p, 0xA5, size, s); err != nil {
				return nil, errors.Join(err, b.Free())
			}
		}
	}
	return b, nil
}

// Free releases the device memory.
func (b *Batch) Free() error {
	var errs []error
	for i, p := range b.Buffers {
		if p != 0 {
			errs = append(errs, b.card.API.MemFree(p))
			b.Buffers[i] = 0
		}
	}
	return errors.Join(errs...)
}

// Run puts the batch's launches into a stream.
func (b *Batch) Run(s driver.Stream) error { return b.card.Run(&b.Plan, &b.Buffers, s) }
