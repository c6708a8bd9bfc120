package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/service"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/upgrade"
)

// configFlag is how the commands that read a configuration are told which.
type configFlag struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"The configuration, YAML; tlsproxy.example.yaml names every key."`
}

// plan reads the configuration and what it names.
func (f configFlag) plan() (*service.Plan, error) {
	return service.LoadFile(f.Config)
}

type runCommand struct{ configFlag }

// Run serves until ctx is done.
func (c *runCommand) Run(ctx context.Context, s streams) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, service.Signals()...)
	defer signal.Stop(signals)
	before, given, err := upgrade.Inherit()
	if err == nil && before == nil {
		given, err = sockets.FromSystemd()
	}
	if err != nil {
		return err
	}
	plan, err := c.plan()
	if err != nil {
		return err
	}
	plan.Sockets, plan.Predecessor = given, before
	logger, level := logging.New(s.err, plan.Config.Log)
	plan.Level = level
	for _, w := range plan.Warnings() {
		logger.Warn(w)
	}
	defer takeOverLog(logger, plan.Config.Log.FailuresPerSecond)()
	defer raiseHeapFloor()()
	started, err := plan.Start(logger)
	if err != nil {
		return err
	}
	return started.Run(ctx, signals)
}

// takeOverLog has what packages write by the standard logger come into the log, in its form
// and so many lines a second, until restore is called: net/http says there what a backend
// sends without being asked.
func takeOverLog(logger *slog.Logger, perSecond int) (restore func()) {
	limiter := logging.NewLimiter(logger, "lines of the standard logger", perSecond)
	writer, flags := log.Writer(), log.Flags()
	log.SetOutput(withoutBodies{limiter})
	log.SetFlags(0)
	return func() {
		log.SetOutput(writer)
		log.SetFlags(flags)
		limiter.Close()
	}
}

// withoutBodies is a destination of net/http's log that leaves out what it quotes of what a
// backend sends without being asked, which can be the rest of an answer's body.
type withoutBodies struct{ io.Writer }

func (w withoutBodies) Write(line []byte) (int, error) {
	text, _, _ := strings.Cut(string(line), " starting with ")
	if _, err := io.WriteString(w.Writer, text); err != nil {
		return 0, err
	}
	return len(line), nil
}

type checkCommand struct {
	configFlag
	Quiet bool `short:"q" help:"Print warnings and mistakes only."`
}

// Run prints the configuration with its defaults and what it leads to.
func (c *checkCommand) Run(s streams) error {
	plan, err := c.plan()
	if err != nil {
		return err
	}
	for _, w := range append(plan.Warnings(), plan.GPUWarnings()...) {
		fmt.Fprintln(s.err, "tlsproxy: warning:", w)
	}
	if c.Quiet {
		return nil
	}
	fmt.Fprintf(s.out, "# %s can be run. With its defaults it says:\n", c.Config)
	for _, line := range plan.Summary() {
		fmt.Fprintf(s.out, "# %s\n", line)
	}
	_, err = s.out.Write(plan.Config.YAML())
	return err
}
