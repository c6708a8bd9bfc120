package gpu

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// Pinned is page-locked host memory for Jobs, which every device reaches. It is not Go memory.
type Pinned struct {
	engine  *Engine
	device  int
	context driver.Context
	once    sync.Once

	// Bytes is the memory. It must not be used after Free.
	Bytes []byte
}

// pinnedMemory is what engines have handed out. Page-locked memory belongs to the process, and may outlive the engine that it is from.
var pinnedMemory = struct {
	sync.Mutex
	of map[*Pinned]struct{}
}{of: make(map[*Pinned]struct{})}

// AllocPinned returns n > 0 bytes of pinned memory, zeroed, for Jobs of any engine of the process. It is freed by Free, which may come after Close, and
// not otherwise; while there is any, a device that fails in a way that calls for a reset stays closed instead, since a reset would take the memory away.
func (e *Engine) AllocPinned(n int) (*Pinned, error) {
	if n <= 0 {
		return nil, fmt.Errorf("gpu: %d bytes of pinned memory; ask for one at least", n)
	}
	p := &Pinned{engine: e, device: e.devices[0].number}
	for _, d := range e.devices {
		if d.session.Load() != nil {
			p.device = d.number
			break
		}
	}
	var err error
	if p.context, err = retainContext(e.api, p.device); err == nil {
		err = p.inContext(func() (err error) {
			p.Bytes, err = e.api.HostAlloc(n)
			return err
		})
		if err != nil {
			err = p.release(err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("gpu: %d bytes of pinned memory: %w", n, err)
	}
	clear(p.Bytes)
	pinnedMemory.Lock()
	defer pinnedMemory.Unlock()
	pinnedMemory.of[p] = struct{}{}
	return p, nil
}

// Free wipes the memory and gives it back. No Job may be using it. Later calls do nothing.
func (p *Pinned) Free() (err error) {
	p.once.Do(func() {
		e := p.engine
		pinnedMemory.Lock()
		delete(pinnedMemory.of, p)
		pinnedMemory.Unlock()
		clear(p.Bytes)
		memory := p.Bytes
		p.Bytes = nil
		err = p.release(p.inContext(func() error { return e.api.HostFree(memory) }))
	})
	return err
}

// release gives the context back after a call of the driver, and returns what went wrong in both: not after one that does not return, lest the context is
// reset, or goes, while that call is in it.
func (p *Pinned) release(err error) error {
	if errors.Is(err, errStuck) {
		return err
	}
	return errors.Join(err, releaseContext(p.engine.api, p.device))
}

// inContext calls fn in the memory's context.
func (p *Pinned) inContext(fn func() error) error {
	err, returned := within(closeTime, func() error {
		if err := p.engine.api.CtxSetCurrent(p.context); err != nil {
			return err
		}
		return fn()
	})
	if !returned {
		return errStuck
	}
	return err
}

// isPinned says whether memory lies within what AllocPinned returned.
func isPinned(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	pinnedMemory.Lock()
	defer pinnedMemory.Unlock()
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for p := range pinnedMemory.of {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(p.Bytes)))
		if start >= base && start-base+uintptr(len(b)) <= uintptr(len(p.Bytes)) {
			return true
		}
	}
	return false
}
