package comparison

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

// Plan says what is measured.
type Plan struct {
	Targets     []Target
	Concurrency []int // levels, each with rounds of its own
	Rounds      int
	Span        loadgen.Span  // of one measurement
	WarmUp      time.Duration // before each target's first round of a level; 0: none

	// Ready, if set, is called before each measurement: key pairs are made ahead.
	Ready func(context.Context, Target) error
	// Progress, if set, receives a line for each level.
	Progress io.Writer
}

// Target is a server, and what is done with it; Load.Concurrency is the level's.
type Target struct {
	Name      string
	Load      loadgen.Load
	ServerPID int  // on this machine; 0: not known
	Base      bool // the others are compared with it
}

// Bounds of a Plan.
const (
	MaxTargets = 64
	MaxRounds  = 1000
	MaxLevels  = 32
)

func (p *Plan) validate() error {
	switch {
	case len(p.Targets) == 0 || len(p.Targets) > MaxTargets:
		return fmt.Errorf("comparison: %d rows; possible are 1 to %d", len(p.Targets), MaxTargets)
	case p.Rounds < 1 || p.Rounds > MaxRounds:
		return fmt.Errorf("comparison: %d rounds; possible are 1 to %d", p.Rounds, MaxRounds)
	case len(p.Concurrency) == 0 || len(p.Concurrency) > MaxLevels:
		return fmt.Errorf("comparison: %d levels of concurrency; possible are 1 to %d", len(p.Concurrency), MaxLevels)
	case p.Span.Duration == 0 && p.Span.Count == 0:
		return errors.New("comparison: neither a duration nor a count of connections bounds a measurement")
	case p.WarmUp < 0 || p.WarmUp > loadgen.MaxDuration:
		return fmt.Errorf("comparison: a warm-up of %v; possible are up to %v", p.WarmUp, loadgen.MaxDuration)
	}
	var names []string
	for _, t := range p.Targets {
		if slices.Contains(names, t.Name) {
			return fmt.Errorf("comparison: two rows are named %q", t.Name)
		}
		names = append(names, t.Name)
	}
	return nil
}

func (p *Plan) subjects() []Subject {
	subjects := make([]Subject, len(p.Targets))
	for i, t := range p.Targets {
		subjects[i] = Subject{Name: t.Name, Group: groups.Name(t.Load.Group), Base: t.Base}
	}
	return subjects
}

// Report is what a Plan led to.
type Report struct {
	Program  string          `json:"program"` // that made the load, with its version
	Machine  machine.Machine `json:"machine"` // of the client
	Began    time.Time       `json:"began"`
	Rounds   int             `json:"rounds"`
	Duration time.Duration   `json:"duration"` // of one measurement; 0: Count bounds it
	Count    int             `json:"count"`
	Levels   [][]Row         `json:"levels"` // one for each concurrency
	// Interrupted says that what is here is not all that was planned.
	Interrupted bool     `json:"interrupted"`
	Warnings    []string `json:"warnings,omitempty"`
}

// Run measures. If ctx is done meanwhile, what was measured until then is the report.
// That connections failed is in the report; the error tells that the measurement could
// not be made.
func (p *Plan) Run(ctx context.Context, program string) (*Report, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	r := &Report{Program: program, Machine: machine.This(), Began: time.Now().UTC().Truncate(time.Second), Rounds: p.Rounds, Duration: p.Span.Duration, Count: p.Span.Count}
	for _, concurrency := range p.Concurrency {
		rows, err := p.level(ctx, concurrency)
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		if len(rows) > 0 {
			r.Levels = append(r.Levels, rows)
		}
		if ctx.Err() != nil {
			r.Interrupted = true
			break
		}
	}
	r.Warnings = r.warnings()
	return r, nil
}

// level makes the rounds of one concurrency.
func (p *Plan) level(ctx context.Context, concurrency int) ([]Row, error) {
	if p.Progress != nil {
		fmt.Fprintf(p.Progress, "measuring: concurrency %d, rows: %d, rounds: %d\n", concurrency, len(p.Targets), p.Rounds)
	}
	clients := make([]*loadgen.Client, len(p.Targets))
	for i, t := range p.Targets {
		var err error
		if clients[i], err = p.begin(ctx, t, concurrency); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	samples := make([][]Sample, len(p.Targets))
	err := Interleave(p.Rounds, len(p.Targets), func(i int) error {
		s, err := p.sample(ctx, clients[i], p.Targets[i])
		if s != nil {
			samples[i] = append(samples[i], *s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Targets[i].Name, err)
		}
		return nil
	})
	rows := Rows(p.subjects(), concurrency, samples)
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Rounds == 0 }), err
}

// begin makes a target's client and warms both sides up.
func (p *Plan) begin(ctx context.Context, t Target, concurrency int) (*loadgen.Client, error) {
	load := t.Load
	load.Concurrency = concurrency
	c, err := loadgen.New(load)
	if err != nil {
		return nil, err
	}
	if err := c.Prepare(ctx); err != nil {
		return nil, err
	}
	if p.WarmUp > 0 {
		_, err = c.Run(ctx, loadgen.Span{Duration: p.WarmUp})
	}
	return c, err
}

// sample makes one measurement. If it was broken off it returns both what there is and
// the error.
func (p *Plan) sample(ctx context.Context, c *loadgen.Client, t Target) (*Sample, error) {
	if p.Ready != nil {
		if err := p.Ready(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := settle(ctx, t.ServerPID); err != nil {
		return nil, err
	}
	before, err := processorTime(t.ServerPID)
	if err != nil {
		return nil, err
	}
	result, err := c.Run(ctx, p.Span)
	if err != nil {
		return nil, err
	}
	s := &Sample{Result: *result, ServerCPU: NoServerCPU}
	if result.Completed+result.Failed == 0 {
		return nil, ctx.Err()
	}
	// Also for what was broken off: the server's time belongs to what was completed.
	if err := settle(context.WithoutCancel(ctx), t.ServerPID); err != nil {
		return s, err
	}
	if t.ServerPID != 0 {
		after, err := processorTime(t.ServerPID)
		if err != nil {
			return s, err
		}
		s.ServerCPU = after - before
	}
	return s, ctx.Err()
}

func processorTime(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	return machine.ProcessCPUTime(pid)
}

// A server is quiet once it has used less than quietUse in quietTime; one that has work
// of its own is not waited for any longer than maxSettle.
const (
	quietTime = 20 * time.Millisecond
	quietUse  = time.Millisecond
	maxSettle = time.Second
)

// settle waits until the server has done with the connections that were closed.
func settle(ctx context.Context, pid int) error {
	if pid == 0 {
		return nil
	}
	used, err := machine.ProcessCPUTime(pid)
	for began := time.Now(); err == nil && time.Since(began) < maxSettle; {
		select {
		case <-time.After(quietTime):
		case <-ctx.Done():
			return ctx.Err()
		}
		before := used
		if used, err = machine.ProcessCPUTime(pid); used-before < quietUse {
			break
		}
	}
	return err
}

// clientLimit is the share of the client's cores from which on it is suspected of
// having been the limit.
const clientLimit = 0.85

func (r *Report) warnings() []string {
	var all []string
	for _, level := range r.Levels {
		for _, row := range level {
			if share := row.ClientBusy / float64(r.Machine.Cores); share >= clientLimit {
				all = append(all, fmt.Sprintf("%s, concurrency %d: the client kept %.0f %% of its cores busy and may have been the limit; give it more cores, or take rate and latency for the client's", row.Name, row.Concurrency, 100*share))
			}
			for cause := range row.Failures {
				if hint := loadgen.Hint(cause); hint != "" {
					all = append(all, fmt.Sprintf("%s, concurrency %d: %s: %s", row.Name, row.Concurrency, cause, hint))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// Failures lists the rows with failures, or without a handshake.
func (r *Report) Failures() []string {
	var all []string
	for _, level := range r.Levels {
		for _, row := range level {
			if text := row.Failure(); text != "" {
				all = append(all, fmt.Sprintf("%s, concurrency %d: %s", row.Name, row.Concurrency, text))
			}
		}
	}
	return all
}

// Failure says what went wrong, empty if nothing did.
func (r *Row) Failure() string {
	switch {
	case r.Failed > 0 || len(r.Errors) > 0:
		return fmt.Sprintf("%d failed, such as: %s", r.Failed, strings.Join(r.Errors, "; "))
	case r.Completed == 0:
		return "no handshake was completed"
	}
	return ""
}
