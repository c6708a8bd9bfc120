package bench

import (
	"errors"
	"runtime"
	"slices"
	"time"
)

// EndToEndOn is Card.EndToEnd on several devices at once, each with a thread and memory of its own: the rate, in operations a second, of all
// of them together, from their common start to the end of the last, the median of three runs. Each passes total operations through.
func EndToEndOn(library string, devices []int, k *Case, total int, o EndToEndOptions) (rate float64, err error) {
	var stations []*station
	for _, device := range devices {
		s := &station{device: device, start: make(chan struct{}), done: make(chan error)}
		go s.work(library, k, total, o)
		stations = append(stations, s)
	}
	failed := await(stations) // that they are ready
	chunks := chunksOf(total, o)
	var rates []float64
	for range 3 {
		if failed != nil {
			break
		}
		begin := time.Now()
		for _, s := range stations {
			s.start <- struct{}{}
		}
		failed = await(stations)
		rates = append(rates, float64(len(devices)*chunks*o.Chunk)/time.Since(begin).Seconds())
	}
	for _, s := range stations {
		close(s.start)
	}
	if err := errors.Join(failed, await(stations)); err != nil {
		return 0, err
	}
	slices.Sort(rates)
	return rates[1], nil
}

// chunksOf returns how many chunks a device passes through for total operations.
func chunksOf(total int, o EndToEndOptions) int { return max(total/o.Chunk, 2*o.Rings) }

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

func (s *station) work(library string, k *Case, total int, o EndToEndOptions) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and the context's hold on it
	card, err := OpenCard(library, s.device)
	if err != nil {
		s.done <- err
		<-s.start
		s.done <- nil
		return
	}
	e := endToEnd{card: card, kase: k, options: o}
	s.done <- e.prepare()
	for range s.start {
		_, err := e.run(chunksOf(total, o))
		s.done <- err
	}
	s.done <- errors.Join(e.free(), card.Close())
}
