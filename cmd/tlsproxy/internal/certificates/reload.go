package certificates

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Fault is a source that could not be read, wholly or in part.
type Fault struct {
	Source int  // its index
	Kept   bool // what was read there before stays in use
	Known  bool // the last reading found the same fault in the same files
	Err    error

	pair   Pair   // that is at fault; zero: the folder
	stamps stamps // of pair when it failed
}

// Error says what is wrong and what came of it.
func (f *Fault) Error() string {
	if f.Kept {
		return f.Err.Error() + "; what was read before stays in use"
	}
	return f.Err.Error()
}

// Unwrap returns Err.
func (f *Fault) Unwrap() error { return f.Err }

// listing is what a source stood for.
type listing struct {
	pairs []Pair
	fault string
}

func listingOf(s Source) (listing, error) {
	pairs, err := s.pairs()
	if err != nil {
		return listing{fault: err.Error()}, err
	}
	return listing{pairs: pairs}, nil
}

// Open reads all that sources name. What could not be read is in the faults; if
// that is all, there is an error too.
func Open(sources []Source, o Options) (*Store, []*Fault, error) {
	s, err := empty(o)
	if err != nil {
		return nil, nil, err
	}
	return s.Reload(sources, false)
}

// Reload reads sources again and returns a Store of what they hold now; s stays
// as it is. Files that did not change are not read, unless all is true. Where a
// file is faulty that s has a certificate from, that is kept.
func (s *Store) Reload(sources []Source, all bool) (*Store, []*Fault, error) {
	r := newReading(s, all)
	next := &Store{sources: slices.Clone(sources), listed: map[Source]listing{}, parsed: s.parsed, room: s.room}
	tasks := r.list(next)
	if len(tasks) > maxPairs {
		return nil, nil, fmt.Errorf("certificates: %d are named; the most is %d", len(tasks), maxPairs)
	}
	r.load(tasks)
	shareIssuers(tasks)
	for _, t := range tasks {
		if t.fault != nil {
			r.faults = append(r.faults, t.fault)
		}
		if t.entry != nil {
			info := t.entry.info
			info.Source = t.source
			next.entries, next.infos = append(next.entries, t.entry), append(next.infos, info)
		}
	}
	next.faults = r.faults
	if len(next.entries) == 0 && len(r.faults) > 0 {
		return nil, r.faults, errors.New("certificates: none could be read")
	}
	next.index()
	s.retire(next)
	return next, r.faults, nil
}

// retire takes from the cache, which both share, what next does not have.
func (s *Store) retire(next *Store) {
	current := make(map[*entry]bool, len(next.entries))
	for _, e := range next.entries {
		current[e] = true
	}
	for _, e := range s.entries {
		if !current[e] {
			s.parsed.Remove(e)
		}
	}
}

// Changed reports whether the files that s was read from, or was to be, have
// changed since. It looks at each, but reads none.
func (s *Store) Changed() bool {
	known := make(map[Pair]*stamps, len(s.entries))
	for _, e := range s.entries {
		known[e.pair] = &e.stamps
	}
	for _, f := range s.faults {
		if f.pair != (Pair{}) {
			known[f.pair] = &f.stamps
		}
	}
	for source, before := range s.listed {
		now, _ := listingOf(source)
		if now.fault != before.fault {
			return true
		}
		if now.fault == "" && !slices.Equal(now.pairs, before.pairs) {
			return true
		}
		for _, p := range now.pairs {
			if taken := stampsOf(p); !known[p].equal(&taken) {
				return true
			}
		}
	}
	return false
}

// reading is one Reload.
type reading struct {
	old    *Store
	all    bool
	known  map[Pair]*entry
	failed map[Pair]*Fault
	faults []*Fault
}

func newReading(old *Store, all bool) *reading {
	r := &reading{old: old, all: all, known: make(map[Pair]*entry, len(old.entries)), failed: map[Pair]*Fault{}}
	for _, e := range old.entries {
		if e.fixed == nil {
			r.known[e.pair] = e
		}
	}
	for _, f := range old.faults {
		r.failed[f.pair] = f
	}
	return r
}

// task is to read one pair.
type task struct {
	source int
	pair   Pair
	entry  *entry
	fresh  bool // entry was read just now, and nobody uses it yet
	fault  *Fault
}

// shareIssuers makes new entries share what others have.
func shareIssuers(tasks []*task) {
	all := issuers{}
	for _, t := range tasks {
		if t.entry != nil && !t.fresh {
			all.learn(t.entry)
		}
	}
	for _, t := range tasks {
		if t.fresh {
			all.share(t.entry)
		}
	}
}

// list finds the pairs of all sources, each once in a set. Of a folder that can't
// be listed those stay that were there before.
func (r *reading) list(next *Store) []*task {
	var tasks []*task
	type member struct {
		set  int
		pair Pair
	}
	seen := map[member]bool{}
	for i, source := range next.sources {
		now, err := listingOf(source)
		if err != nil {
			before := r.old.listed[source]
			now.pairs = before.pairs
			r.faults = append(r.faults, &Fault{Source: i, Kept: len(now.pairs) > 0, Known: before.fault == now.fault, Err: err})
		}
		next.listed[source] = now
		for _, p := range now.pairs {
			if m := (member{source.Set, p}); !seen[m] {
				seen[m] = true
				tasks = append(tasks, &task{source: i, pair: p})
			}
		}
	}
	return tasks
}

// load reads the files on every processor.
func (r *reading) load(tasks []*task) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(tasks), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(tasks)); i = next.Add(1) - 1 {
				r.one(tasks[i])
			}
		})
	}
	workers.Wait()
}

// one reads a pair, unless what is known of it still holds.
func (r *reading) one(t *task) {
	taken := stampsOf(t.pair) // before reading: what comes later is a change
	before, failed := r.known[t.pair], r.failed[t.pair]
	unchanged := before != nil && before.stamps.equal(&taken)
	failedSo := failed != nil && failed.stamps.equal(&taken)
	if unchanged && !r.all {
		t.entry = before
		return
	}
	e, err := loadEntry(t.pair, taken)
	switch {
	case err != nil:
		t.entry = before
		t.fault = &Fault{Source: t.source, Kept: before != nil, Known: failedSo, Err: err, pair: t.pair, stamps: taken}
	case before != nil && e.same(before):
		t.entry = before
	default:
		t.entry, t.fresh = e, true
		r.warm(e)
	}
}

// warm parses a certificate ahead of its use if there is room for it.
func (r *reading) warm(e *entry) {
	if r.old.parsed.Len() < r.old.room {
		r.old.parse(e) // an error shows when it is used
	}
}
