package bench

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// EndToEndOn is Card.EndToEnd on several devices at once, each with a thread and memory of its own: the rate, in operations a second, of all
// of them together, from their common start to the end of the last, the median of three runs. Each passes total operations through.
func EndToEndOn(library string, devices []int, k *Case, total int, o EndToEndOptions) (rate float64, err error) {
	chunks := chunksOf(total, o)
	took, err := together(library, devices, func(card *Card) measured {
		e := &endToEnd{card: card, kase: k, options: o}
		return measured{e.prepare, func() error { _, err := e.run(chunks); return err }, e.free}
	})
	return float64(len(devices)*chunks*o.Chunk) / took.Seconds(), err
}

// chunksOf returns how many chunks a device passes through for total operations.
func chunksOf(total int, o EndToEndOptions) int { return max(total/o.Chunk, 2*o.Rings) }

// CopyOptions say what CopyOn copies.
type CopyOptions struct {
	In, Out bool // to the device, to the host; both at once, in a stream each
	Set     int  // bytes of pinned memory for each direction, which are used over and over
	Total   int  // bytes to copy in each direction
	Size    int  // bytes of a copy; no more than Set
}

// CopyOn returns the bytes a second that copies between pinned host memory and devices move, of all devices and directions together, as
// EndToEndOn measures. A set that lies in the processors' cache is copied without the host's memory.
func CopyOn(library string, devices []int, o CopyOptions) (rate float64, err error) {
	copies := max(o.Total/o.Size, 1)
	moved := 0
	for _, on := range []bool{o.In, o.Out} {
		if on {
			moved += len(devices) * copies * o.Size
		}
	}
	took, err := together(library, devices, func(card *Card) measured {
		c := &copier{card: card, options: o}
		return measured{c.allocate, func() error { return c.run(copies) }, c.free}
	})
	return float64(moved) / took.Seconds(), err
}

// A copier copies between a device and pinned memory of its own.
type copier struct {
	card    *Card
	options CopyOptions
	lanes   []copyLane
}

type copyLane struct {
	out    bool
	stream driver.Stream
	host   []byte
	device driver.DevicePtr
}

func (c *copier) allocate() error {
	api := c.card.API
	for out, on := range map[bool]bool{false: c.options.In, true: c.options.Out} {
		if !on {
			continue
		}
		c.lanes = append(c.lanes, copyLane{out: out})
		l := &c.lanes[len(c.lanes)-1]
		var err error
		if l.stream, err = api.StreamCreate(0); err != nil {
			return err
		}
		if l.host, err = api.HostAlloc(c.options.Set); err != nil {
			return err
		}
		clear(l.host) // brings it into the cache, as far as it fits
		if l.device, err = api.MemAlloc(c.options.Size); err != nil {
			return err
		}
		if err := api.MemsetAsync(l.device, 0, c.options.Size, l.stream); err != nil {
			return err
		}
	}
	return c.run(2)
}

func (c *copier) run(copies int) error {
	api, size := c.card.API, c.options.Size
	for i := range copies {
		at := i % (c.options.Set / size) * size
		for j := range c.lanes {
			l := &c.lanes[j]
			part := l.host[at : at+size]
			var err error
			if l.out {
				err = api.CopyToHost(part, l.device, l.stream)
			} else {
				err = api.CopyToDevice(l.device, part, l.stream)
			}
			if err != nil {
				return err
			}
		}
	}
	return api.CtxSynchronize()
}

func (c *copier) free() error {
	api := c.card.API
	errs := []error{api.CtxSynchronize()}
	for _, l := range c.lanes {
		if l.device != 0 {
			errs = append(errs, api.MemFree(l.device))
		}
		if l.host != nil {
			errs = append(errs, api.HostFree(l.host))
		}
		if l.stream != 0 {
			errs = append(errs, api.StreamDestroy(l.stream))
		}
	}
	return errors.Join(errs...)
}

// HostCopy returns the bytes a second that all processors together copy from memory to memory, size bytes each a round: each byte is read
// and written once. It is the median of three.
func HostCopy(size, rounds int) float64 {
	threads := runtime.GOMAXPROCS(0)
	from, to := make([][]byte, threads), make([][]byte, threads)
	each := func(f func(i int)) time.Duration {
		var wg sync.WaitGroup
		start := time.Now()
		for i := range threads {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
		return time.Since(start)
	}
	each(func(i int) {
		from[i], to[i] = make([]byte, size), make([]byte, size)
		for j := 0; j < size; j += 1024 { // pages of their own
			from[i][j] = 1
		}
		copy(to[i], from[i])
	})
	var all []time.Duration
	for range 3 {
		all = append(all, each(func(i int) {
			for range rounds {
				copy(to[i], from[i])
			}
		}))
	}
	slices.Sort(all)
	return float64(threads*rounds*size) / all[1].Seconds()
}

// measured is something that is made ready, run several times, and taken apart again, on one thread.
type measured struct{ prepare, run, free func() error }

// together runs the same on several devices at once, each with a thread of its own, and returns the median time of three runs, from their
// common start to the end of the last.
func together(library string, devices []int, on func(*Card) measured) (took time.Duration, err error) {
	var stations []*station
	for _, device := range devices {
		s := &station{device: device, start: make(chan struct{}), done: make(chan error)}
		go s.work(library, on)
		stations = append(stations, s)
	}
	failed := await(stations) // that they are ready
	var all []time.Duration
	for range 3 {
		if failed != nil {
			break
		}
		begin := time.Now()
		for _, s := range stations {
			s.start <- struct{}{}
		}
		failed = await(stations)
		all = append(all, time.Since(begin))
	}
	for _, s := range stations {
		close(s.start)
	}
	if err := errors.Join(failed, await(stations)); err != nil {
		return 0, err
	}
	slices.Sort(all)
	return all[1], nil
}

// A station is one of several devices that start together.
type station struct {
	device int
	start  chan struct{} // a run for each; closed when there are no more
	done   chan error    // once ready, after each run, and at the end
}

func await(stations []*station) error {
	var errs []error
	for _, s := range stations {
		errs = append(errs, <-s.done)
	}
	return errors.Join(errs...)
}

func (s *station) work(library string, on func(*Card) measured) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and the context's hold on it
	card, err := OpenCard(library, s.device)
	if err != nil {
		s.done <- err
		<-s.start
		s.done <- nil
		return
	}
	m := on(card)
	s.done <- m.prepare()
	for range s.start {
		s.done <- m.run()
	}
	s.done <- errors.Join(m.free(), card.Close())
}
