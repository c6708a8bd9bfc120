package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/service"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
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
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	plan, err := c.plan()
	if err != nil {
		return err
	}
	if plan.Sockets, err = sockets.FromSystemd(); err != nil {
		return err
	}
	logger, level := logging.New(s.err, plan.Config.Log)
	plan.Level = level
	for _, w := range plan.Warnings() {
		logger.Warn(w)
	}
	defer raiseHeapFloor()()
	started, err := plan.Start(logger)
	if err != nil {
		return err
	}
	return started.Run(ctx, hangups)
}

type checkCommand struct{ configFlag }

// Run prints the configuration with its defaults and what it leads to.
func (c *checkCommand) Run(s streams) error {
	plan, err := c.plan()
	if err != nil {
		return err
	}
	for _, w := range plan.Warnings() {
		fmt.Fprintln(s.err, "tlsproxy: warning:", w)
	}
	fmt.Fprintf(s.out, "# %s can be run. With its defaults it says:\n", c.Config)
	for _, line := range plan.Summary() {
		fmt.Fprintf(s.out, "# %s\n", line)
	}
	_, err = s.out.Write(plan.Config.YAML())
	return err
}
