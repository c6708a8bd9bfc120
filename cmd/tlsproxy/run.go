package main

import (
	"context"
	"fmt"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/service"
)

// configFlag is how the commands that read a configuration are told which.
type configFlag struct {
	Config string `short:"c" required:"" placeholder:"FILE" help:"The configuration, YAML; tlsproxy.example.yaml names every key."`
}

// plan reads the configuration and what it names.
func (f configFlag) plan() (*service.Plan, error) {
	c, err := config.Load(f.Config)
	if err != nil {
		return nil, err
	}
	return service.Load(c)
}

type runCommand struct {
	configFlag
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"Write a profile of the whole run for go tool pprof when it ends."`
}

// Run serves until ctx is done.
func (c *runCommand) Run(ctx context.Context, s streams) error {
	stop, err := startProfile(c.CPUProfile)
	if err != nil {
		return err
	}
	defer stop()
	plan, err := c.plan()
	if err != nil {
		return err
	}
	logger := logging.New(s.err, plan.Config.Log)
	for _, w := range plan.Warnings() {
		logger.Warn(w)
	}
	defer raiseHeapFloor()()
	started, err := plan.Start(logger)
	if err != nil {
		return err
	}
	return started.Run(ctx)
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
	for i, line := range plan.Certificates() {
		fmt.Fprintf(s.out, "# certificates[%d]: %s\n", i, line)
	}
	_, err = s.out.Write(plan.Config.YAML())
	return err
}
