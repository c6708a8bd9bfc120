package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/demo"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

// Options say what is measured and for how long.
type Options struct {
	Program  string        // with its version
	Command  string        // as it was typed
	Parts    []string      // of Parts(); empty: all of them
	Duration time.Duration // that measuring is to take, all parts together
	Note     string        // for the head of the page
	Demo     demo.Options  // Client, Stderr and Logger: how the parts with handshakes run theirs
	Progress *Progress     // nil: nothing is said
}

// Bounds of Options.
const (
	MinDuration = 10 * time.Millisecond
	MaxDuration = 6 * time.Hour
	maxNote     = 2000 // bytes
)

// Bound is the time within which Run ends: half as long again as measuring is to take, since single calls can take longer than what
// they have, and what it takes to begin.
func (o *Options) Bound() time.Duration { return o.Duration + o.Duration/2 + time.Minute }

func (o *Options) validate() error {
	for _, id := range o.Parts {
		if !slices.Contains(Parts(), id) {
			return fmt.Errorf("report: there is no part %q; there are %s", id, strings.Join(Parts(), ", "))
		}
	}
	switch {
	case o.Duration < MinDuration || o.Duration > MaxDuration:
		return fmt.Errorf("report: a duration of %v; possible are %v to %v", o.Duration, MinDuration, MaxDuration)
	case len(o.Note) > maxNote:
		return fmt.Errorf("report: a note of %d bytes; possible are up to %d", len(o.Note), maxNote)
	}
	return nil
}

// A part is a section to be measured.
type part struct {
	id, title string
	about     []string
	weight    int // its share of the time
	// missing says why it cannot be measured here; empty: it can.
	missing func(*gpus) string
	measure func(context.Context, *measurement) error
}

// parts are all there are, in the order of the page.
func parts() []part {
	return []part{kemPart, batchPart, exchangePart, handshakePart, gpuPart, productPart}
}

// Parts returns the names of all parts.
func Parts() []string {
	var all []string
	for _, p := range parts() {
		all = append(all, p.id)
	}
	return all
}

// A measurement is a part while it is measured.
type measurement struct {
	section  *Section
	time     time.Duration // that it has
	options  *Options
	gpus     *gpus
	progress *Progress
}

// step tells what is measured next.
func (m *measurement) step(what string) { m.progress.step(m.section.Title + ": " + what) }

// errTime is why what is left is not measured when the time of Bound is up.
var errTime = errors.New("the time was up; a longer --duration, or fewer parts, give it more")

// Run measures. It ends within Bound; if ctx is done before, there is no report. What could not be measured is in the report
// (Report.Failures), and no error.
func Run(ctx context.Context, o Options) (*Report, error) { return run(ctx, o, parts(), o.Bound()) }

func run(ctx context.Context, o Options, all []part, bound time.Duration) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if len(o.Parts) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(p part) bool { return !slices.Contains(o.Parts, p.id) })
	}
	bounded, cancel := context.WithTimeoutCause(ctx, bound, errTime)
	defer cancel()
	found := findGPUs()
	r := &Report{
		Program: o.Program, Machine: strings.Join(append([]string{machine.This().CPU}, found.names...), ", "), Command: o.Command, Note: o.Note,
		Began: time.Now().UTC().Truncate(time.Second), Duration: o.Duration, Facts: facts(o.Program, found),
	}
	o.Progress.begin(&o)
	defer o.Progress.end()
	load, start := machine.WatchOthers(), time.Now()
	shares := share(o.Duration, all, found)
	for i, p := range all {
		section := Section{ID: p.id, Title: p.title, About: p.about, Missing: p.missing(found), Command: fmt.Sprintf("tlsproxy report --only %s --duration %v", p.id, o.Duration)}
		if section.Missing == "" {
			m := &measurement{section: &section, options: &o, gpus: found, progress: o.Progress, time: shares[i]}
			if err := m.run(bounded, p); err != nil {
				section.Error = inLine(err)
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("report: interrupted, nothing is written: %w", context.Cause(ctx))
		}
		r.Sections = append(r.Sections, section)
	}
	r.Took = time.Since(start)
	if others, processors, ok := load.Others(); ok {
		r.Facts = append(r.Facts, Fact{"Other work meanwhile", fmt.Sprintf("other processes kept %.1f of this machine's %d processors busy on average", others, processors)})
	}
	return r, nil
}

// share divides the time among the parts that can be measured here, by their weights.
func share(all time.Duration, parts []part, found *gpus) []time.Duration {
	weights, shares := 0, make([]time.Duration, len(parts))
	for _, p := range parts {
		if p.missing(found) == "" {
			weights += p.weight
		}
	}
	for i, p := range parts {
		if p.missing(found) == "" {
			shares[i] = all * time.Duration(p.weight) / time.Duration(weights)
		}
	}
	return shares
}

// run measures a part. What it panics with is an error of that part alone.
func (m *measurement) run(ctx context.Context, p part) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("it panicked: %v", what)
		}
	}()
	err = p.measure(ctx, m)
	if err != nil && errors.Is(context.Cause(ctx), errTime) {
		return errTime
	}
	return err
}

// inLine is an error's text without line breaks, and what it says more than once, said once.
func inLine(err error) string {
	var said []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}
