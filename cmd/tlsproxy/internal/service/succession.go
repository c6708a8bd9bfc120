package service

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/upgrade"
)

// serving is what the service manager shows of a process that is well.
const serving = "serving"

// upgradeWithin bounds how long a successor may take until it serves: it reads all
// certificates, and has GPUs compile kernels.
const upgradeWithin = time.Minute

// upgrade starts this program anew, as it is on disk by now, and reports whether
// that process serves. If it does not this one goes on.
func (s *Service) upgrade(ctx context.Context) bool {
	successor, err := s.startSuccessor(ctx)
	if err != nil {
		s.failedUpgrades.Add(1)
		s.log.Error("the upgrade failed; this process serves on", "err", err)
		s.manager.Status(serving + "; the latest upgrade failed, see the log")
		return false
	}
	s.own(false)
	s.manager.MainProcess(successor.PID)
	successor.Release()
	s.successor = successor
	s.log.Info("a new process serves in place of this one", "process", successor.PID)
	return true
}

// errAlone is what Run returns if the successor has broken down while this process left:
// nobody serves then, and whoever looks after the service has to start it again.
var errAlone = errors.New("service: the process that took over has ended while this one was leaving")

// guard calls hurry if the successor breaks down before what it returns is called, which
// reports whether it has.
func (s *Service) guard(hurry func()) (left func() (alone bool)) {
	done := make(chan struct{})
	alone := make(chan bool, 1)
	go func() {
		select {
		case err := <-s.successor.Ended():
			if err != nil {
				s.log.Error("the process that took over has ended; nobody serves until another is started", "process", s.successor.PID, "err", err)
				hurry()
			}
			alone <- err != nil
		case <-done:
			alone <- false
		}
	}()
	return func() bool {
		close(done)
		return <-alone
	}
}

func (s *Service) startSuccessor(ctx context.Context) (*upgrade.Successor, error) {
	program, err := upgrade.Program()
	if err != nil {
		return nil, err
	}
	keys, err := s.tickets.Export()
	if err != nil {
		return nil, err
	}
	s.log.Info("upgrading", "program", program)
	return upgrade.Start(ctx, upgrade.Options{Program: program, Args: os.Args[1:], Sockets: s.inheritance(), Within: upgradeWithin, Secret: keys})
}

// relieve takes over from the predecessor, if there is one. A predecessor that is
// gone has left nothing to wait for.
func (s *Service) relieve(ctx context.Context) {
	before := s.current().Predecessor
	if before == nil {
		return
	}
	if err := before.Relieve(ctx); err != nil {
		s.log.Warn("taking over from the process before", "err", err)
	}
	s.own(true)
}

// own says whether the files of Unix sockets are this process's to remove.
func (s *Service) own(own bool) {
	for _, ln := range s.inheritance() {
		ln.Own(own)
	}
}
