package machine

import "time"

// A Watch tells how busy other processes have kept this machine since WatchOthers.
type Watch struct {
	since     time.Time
	all, ours time.Duration
	err       error
}

// WatchOthers begins to watch.
func WatchOthers() *Watch {
	w := &Watch{since: time.Now()}
	w.all, w.ours, _, w.err = usage()
	return w
}

// Others returns how many of the machine's processors were busy, on average, with other processes than this one and those of its children that
// it has waited for, other virtual machines included as far as the system knows of them; false if that is not known.
func (w *Watch) Others() (busy float64, processors int, ok bool) {
	all, ours, processors, err := usage()
	elapsed := time.Since(w.since)
	if err != nil || w.err != nil || all <= w.all || elapsed <= 0 {
		return 0, 0, false
	}
	return others(all-w.all, ours-w.ours, elapsed), processors, true
}

// others is never negative, though what the system counts in ticks and what it counts of this process can differ by one.
func others(all, ours, elapsed time.Duration) float64 {
	return max(0, float64(all-ours)/float64(elapsed))
}
