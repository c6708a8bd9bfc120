package service

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/watch"
)

// maxLoggedChanges bounds how many lines one reload writes about keys, and as
// many about certificates.
const maxLoggedChanges = 50

// follow reloads when there is reason to, until ctx is done or, which it reports, a
// successor serves.
func (s *Service) follow(ctx context.Context, signals <-chan os.Signal) (succeeded bool) {
	var poll, every ticker
	defer poll.set(0)
	defer every.set(0)
	for {
		c := s.current().Config.Reload
		poll.set(time.Duration(c.Poll))
		every.set(time.Duration(c.Every))
		select {
		case <-ctx.Done():
			return false
		case signal := <-signals:
			if isUpgrade(signal) {
				if s.upgrade(ctx) {
					return true
				}
				continue
			}
			s.manager.Reloading()
			s.reload(occasion{because: "SIGHUP", configuration: true})
			s.manager.Ready(s.condition())
		case <-poll.C():
			if o := s.changed(c.Configuration); o != (occasion{}) {
				s.reload(o)
			}
		case <-every.C():
			s.reload(occasion{because: "reload.every", configuration: c.Configuration, all: true})
		}
	}
}

// condition is what the service manager shows of a process that serves.
func (s *Service) condition() string {
	if s.failing.Load() != nil {
		return serving + "; the latest reload failed, see the log"
	}
	return serving
}

// ticker is a time.Ticker whose interval can be set; 0: it never ticks.
type ticker struct {
	interval time.Duration
	ticker   *time.Ticker
}

func (t *ticker) set(interval time.Duration) {
	if t.interval == interval {
		return
	}
	if t.ticker != nil {
		t.ticker.Stop()
		t.ticker = nil
	}
	if t.interval = interval; interval > 0 {
		t.ticker = time.NewTicker(interval)
	}
}

// C returns the channel of the ticks, nil if there are none.
func (t *ticker) C() <-chan time.Time {
	if t.ticker == nil {
		return nil
	}
	return t.ticker.C
}

// occasion is why, and so how much, is reloaded.
type occasion struct {
	because       string
	configuration bool // the configuration file too
	all           bool // what does not look changed too
}

// changed looks at the files. The occasion is empty if all are as they were when
// they were last read, or found to be faulty.
func (s *Service) changed(configuration bool) occasion {
	p := s.current()
	o := occasion{because: "changed files", configuration: configuration && !s.configuration.Equal(watch.Of(p.Config.File()))}
	if o.configuration || s.files.Changed() || !p.given && p.store.Changed() {
		return o
	}
	return occasion{}
}

// reload reads the files again and goes by what they say. On an error all stays
// as it is.
func (s *Service) reload(o occasion) {
	before := s.current()
	next, err := s.read(before, o)
	var changes []config.Change
	if err == nil {
		changes = config.Diff(before.Config, next.Config)
		err = s.apply(before, next)
	}
	if err != nil {
		s.reloadFailures.Add(1)
		s.failing.Store(&o)
		s.log.Error("reloading failed; everything stays as it was", "because", o.because, "err", err)
		return
	}
	if f := s.failing.Load(); f != nil && (o.configuration || !f.configuration) {
		s.failing.Store(nil) // else the configuration file, which was not read this time, may still be faulty
	}
	s.logReload(o, before, next, changes)
}

// read makes the next Plan. Files are noted as seen even if they are faulty, so
// that each fault is logged once.
func (s *Service) read(before *Plan, o occasion) (*Plan, error) {
	next := &Plan{Config: before.Config, Level: before.Level, given: before.given, store: before.store}
	if file := before.Config.File(); o.configuration && file != "" {
		s.configuration = watch.Of(file)
		c, err := config.Load(file)
		if err != nil {
			return nil, err
		}
		next.Config = c
	}
	err := next.read(reading{before: before, strict: next.Config != before.Config, all: o.all})
	s.files = next.files
	return next, err
}

// apply makes the proxy go by next.
func (s *Service) apply(before, next *Plan) error {
	if before.Config.TLS.Tickets.Store != next.Config.TLS.Tickets.Store { // it is for the next process
		next.tickets.password, next.tickets.storeCA = before.tickets.password, before.tickets.storeCA
	}
	next.Config.KeepUntilRestart(before.Config)
	if next.Config.TLS.Tickets.Store.URL != "" && len(next.tickets.secrets) == 0 {
		return next.Config.Errorf("tls.tickets", "tls.tickets.store takes effect at a restart only, and needs tls.tickets.secrets until then; leave them where they are")
	}
	pools, err := next.openPools(s.log, before, before.open)
	if err != nil {
		return err
	}
	if err := s.manageNames(next); err != nil {
		closeOthers(pools, before.open)
		return err
	}
	options, err := s.options(next, pools)
	if err != nil {
		closeOthers(pools, before.open)
		return err
	}
	if err := s.setTickets(next); err != nil {
		closeOthers(pools, before.open)
		return err
	}
	if next.Level != nil {
		next.Level.Set(next.Config.Log.Level.Slog())
	}
	s.proxy.Update(options)
	next.open = pools
	s.plan.Store(next)
	closeOthers(before.open, pools)
	return nil
}

// logReload tells what a reload has changed. If nothing has, that is told only
// to those who asked for the reload.
func (s *Service) logReload(o occasion, before, next *Plan, changes []config.Change) {
	bounded := func(n int, line func(i int)) {
		for i := range min(n, maxLoggedChanges) {
			line(i)
		}
		if more := n - maxLoggedChanges; more > 0 {
			s.log.Warn("and more of these", "more", more)
		}
	}
	bounded(len(changes), func(i int) {
		c := changes[i]
		level, message := slog.LevelInfo, "changed"
		if c.Restart {
			level, message = slog.LevelWarn, "changed, but takes effect at a restart only"
		}
		s.log.Log(context.Background(), level, message, "key", c.Key, "from", c.From, "to", c.To)
	})
	faults := slices.DeleteFunc(slices.Clone(next.faults), func(f *certificates.Fault) bool { return f.Known && !o.configuration })
	bounded(len(faults), func(i int) { s.log.Error("a certificate could not be read", "err", faults[i]) })
	added, removed := next.store.Since(before.store)
	if added+removed+len(changes)+len(faults) > 0 || o.configuration {
		s.reloads.Add(1)
		s.log.Info("reloaded", "because", o.because, "changes", len(changes), "certificates", len(next.store.Certificates()), "new", added, "gone", removed)
	}
	if o.configuration {
		for _, w := range next.Warnings() {
			s.log.Warn(w)
		}
	}
}
