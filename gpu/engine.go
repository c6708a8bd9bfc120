package gpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/average"
)

// An Engine runs batches on the devices of this machine. Its methods may be called concurrently.
type Engine struct {
	config  Config
	api     driver.API
	kinds   []*Kind
	probes  []probe
	signing signingKeys
	devices []*device
	monitor monitor // nil without NVML
	closing chan struct{}
	once    sync.Once
	keepers sync.WaitGroup
	room    room

	mu     sync.Mutex
	closed error // what went wrong in Close
}

// Open opens the devices that cfg names. It fails if cfg is at fault, with an error that wraps driver.ErrNoDriver where this machine
// has no driver, and if no device could be opened. A device that could not, beside others that could, is tried again later.
func Open(cfg Config) (_ *Engine, err error) {
	cfg, err = cfg.ready()
	if err != nil {
		return nil, err
	}
	e := &Engine{config: cfg, closing: make(chan struct{})}
	if e.kinds, err = newKinds(&cfg); err != nil {
		return nil, err
	}
	for i := range cfg.Probes {
		if err := e.addProbe(&cfg.Probes[i]); err != nil {
			return nil, err
		}
	}
	if e.api = cfg.Driver; e.api == nil {
		if e.api, err = driver.Open(cfg.Library); err != nil {
			return nil, fmt.Errorf("gpu: %w", err)
		}
	}
	e.openMonitor()
	defer func() {
		if err != nil {
			err = errors.Join(err, e.closeMonitor())
		}
	}()
	if err := e.find(); err != nil {
		return nil, err
	}
	if err := e.openAll(); err != nil {
		return nil, err
	}
	return e, nil
}

// A probe is a Probe whose kind is known.
type probe struct {
	kind *Kind
	*Probe
}

func (e *Engine) addProbe(p *Probe) (err error) {
	var k *Kind
	switch {
	case p.Operation != Sign:
		k, err = e.Kind(p.Set, p.Operation)
	case !e.config.Sign:
		err = errNoSignatures
	default:
		k, err = e.signingKindOf(p.Key)
	}
	if err == nil && (len(p.Input) != k.input || len(p.Output) != k.output) {
		err = fmt.Errorf("%w: a probe of %v has %d and %d bytes, want %d and %d", ErrConfig, k, len(p.Input), len(p.Output), k.input, k.output)
	}
	e.probes = append(e.probes, probe{k, p})
	return err
}

// find describes the devices to use.
func (e *Engine) find() error {
	count, err := e.api.DeviceCount()
	if err != nil {
		return fmt.Errorf("gpu: %w", err)
	}
	numbers := e.config.Devices
	if numbers == nil {
		for i := range count {
			numbers = append(numbers, i)
		}
	}
	if len(numbers) == 0 {
		return fmt.Errorf("gpu: %w", driver.ErrNoDevice)
	}
	if len(numbers) > MaxDevices {
		return fmt.Errorf("%w: %d devices; the most is %d: name some in Devices", ErrConfig, len(numbers), MaxDevices)
	}
	for _, n := range numbers {
		if n >= count {
			return fmt.Errorf("%w: Devices names device %d; this machine has %d", ErrConfig, n, count)
		}
		info, err := e.api.DeviceInfo(n)
		if err != nil {
			return fmt.Errorf("gpu: device %d: %w", n, err)
		}
		e.devices = append(e.devices, &device{
			engine: e, api: e.api, number: n, info: info, latency: make([]average.Line, len(e.kinds)), flight: make([]average.Average, len(e.kinds)),
			log: e.config.Logger.With("device", n, "name", info.Name, "pci", info.PCIBusID),
		})
	}
	return nil
}

// openAll opens the devices side by side and starts their keepers.
func (e *Engine) openAll() error {
	sessions, errs := make([]*session, len(e.devices)), make([]error, len(e.devices))
	var wg sync.WaitGroup
	for i, d := range e.devices {
		wg.Go(func() { sessions[i], errs[i] = d.open() })
	}
	wg.Wait()
	none := true
	for i, d := range e.devices {
		if sessions[i] != nil {
			none = false
			d.start(sessions[i])
		} else {
			errs[i] = fmt.Errorf("gpu: device %d (%s): %w", d.number, d.info.Name, errs[i])
		}
	}
	if none {
		return errors.Join(errs...)
	}
	for i, d := range e.devices {
		if sessions[i] == nil {
			d.faults.Add(1)
			d.failedToOpen(errs[i], false)
		}
		e.keepers.Add(1)
		go d.keep(sessions[i])
	}
	return nil
}

// Kind returns the kind of an operation of the parameter set of degree n.
func (e *Engine) Kind(n int, op Operation) (*Kind, error) {
	for _, k := range e.kinds {
		if k.set == n && k.operation == op && op != Sign {
			return k, nil
		}
	}
	return nil, fmt.Errorf("gpu: %s of CTRU-Prime-%d is not served; see Config.Sets", op, n)
}

// Capacity returns the most rows of a batch.
func (e *Engine) Capacity() int { return e.config.Capacity }

// Reserve takes n > 0 rows, or fewer if the batch that is being filled has no more, on the device that is expected to be done with them
// first. It never waits. Its error is ErrBusy or ErrUnavailable; Room says when ErrBusy may have passed.
func (e *Engine) Reserve(k *Kind, n int) (Ticket, error) {
	err := ErrUnavailable
	for tried := uint64(0); ; {
		i, s := e.best(k, tried)
		if s == nil {
			return Ticket{}, err
		}
		t, failed := s.reserve(k, n)
		if failed == nil {
			return t, nil
		}
		if failed == ErrBusy {
			err = ErrBusy
		}
		tried |= 1 << i
	}
}

// best returns the session that is expected to finish first, of the devices that are not in the set tried.
func (e *Engine) best(k *Kind, tried uint64) (index int, best *session) {
	var least float64
	for i, d := range e.devices {
		s := d.session.Load()
		if s == nil || tried&(1<<i) != 0 {
			continue
		}
		if len(e.devices) == 1 {
			return i, s
		}
		if when := d.expected(s, k); best == nil || when < least {
			index, best, least = i, s, when
		}
	}
	return index, best
}

// Refuse closes a device for good, because it has given a wrong result.
func (e *Engine) Refuse(number int, reason error) {
	for _, d := range e.devices {
		if d.number == number {
			d.refuse(reason)
		}
	}
}

// closingError takes note of what went wrong while the engine closes.
func (e *Engine) closingError(err error) {
	select {
	case <-e.closing:
	default:
		return // the device is only opened again
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = errors.Join(e.closed, err)
}

// Close lets batches in flight end, closes the devices and frees all memory. Reserve then refuses. It returns what the driver has
// reported.
func (e *Engine) Close() error {
	e.once.Do(func() {
		close(e.closing)
		e.keepers.Wait()
		if err := e.closeMonitor(); err != nil {
			e.mu.Lock()
			e.closed = errors.Join(e.closed, err)
			e.mu.Unlock()
		}
	})
	return e.closed
}
