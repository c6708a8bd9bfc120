package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress tells how far a report is: on a terminal by a bar that is drawn again and again, elsewhere by a line for each step. A nil one
// tells nothing.
type Progress struct {
	w        io.Writer
	terminal bool

	mu      sync.Mutex
	start   time.Time
	planned time.Duration
	what    string
	drawn   bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

// NewProgress writes to w, which is a terminal or is not.
func NewProgress(w io.Writer, terminal bool) *Progress { return &Progress{w: w, terminal: terminal} }

// redraw is how often the bar is drawn: seldom enough not to count among what is measured.
const redraw = time.Second / 2

// begin says how long it will take.
func (p *Progress) begin(o *Options) {
	if p == nil {
		return
	}
	p.start, p.planned, p.stop = time.Now(), o.Duration, make(chan struct{})
	bound := (o.Bound() + time.Second - 1).Truncate(time.Second)
	fmt.Fprintf(p.w, "Measuring for about %v; it ends within %v, by %s.\n", o.Duration, bound, p.start.Add(bound).Format(time.TimeOnly))
	if p.terminal {
		p.stopped.Go(p.draw)
	}
}

// end takes the bar away.
func (p *Progress) end() {
	if p == nil {
		return
	}
	close(p.stop)
	p.stopped.Wait()
	if p.drawn {
		fmt.Fprint(p.w, clearLine)
	}
}

// step says what is measured next.
func (p *Progress) step(what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
	if !p.terminal {
		fmt.Fprintf(p.w, "%6s  %s\n", time.Since(p.start).Round(time.Second), what)
	}
}

func (p *Progress) draw() {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.mu.Lock()
			fmt.Fprint(p.w, clearLine+bar(time.Since(p.start), p.planned)+" "+p.what)
			p.drawn = true
			p.mu.Unlock()
		}
	}
}

// clearLine goes to the line's beginning and clears it (ECMA-48).
const clearLine = "\r\x1b[K"

// bar is the share of the planned time that has passed: never all of it, as it can take longer.
func bar(passed, planned time.Duration) string {
	const wide = 24
	share := min(float64(passed)/float64(max(planned, 1)), 0.99)
	full := int(share * wide)
	return fmt.Sprintf("[%s%s] %2.0f %%", strings.Repeat("#", full), strings.Repeat(".", wide-full), 100*share)
}
