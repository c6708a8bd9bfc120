package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/demo"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
	"github.com/ctrutls/ctrutls/provider"
)

type demoCommand struct {
	Groups      []config.Group      `default:"X25519,X25519MLKEM768,X25519CTRUPrime761" help:"The groups to compare; ratios are to X25519, else to the first (${default})."`
	Rounds      int                 `default:"5" help:"Rounds, each with every group in turn (${default})."`
	Duration    time.Duration       `default:"500ms" help:"How long one group runs in one round (${default})."`
	Concurrency int                 `default:"16" help:"Connections at once (${default})."`
	Listen      string              `default:"localhost:0" help:"Where the proxy listens; port 0 is any free one (${default})."`
	GPU         string              `name:"gpu" enum:"auto,sim,off" default:"off" help:"What computes the server's key exchanges with CTRU-Prime: auto, GPUs when there is enough to do; sim, the simulated GPU of 'make sim' in this folder's build folder, which is slow; off, the CPU (${default})."`
	JSON        bool                `name:"json" help:"Print the figures as JSON."`
	Keep        bool                `help:"Leave the proxy running afterwards, with a live page, until Ctrl-C."`
	Admin       config.AdminAddress `default:"localhost:0" help:"Where the live page of --keep is (${default})."`
}

// Run measures and prints. It fails if any handshake did.
func (c *demoCommand) Run(ctx context.Context, s streams) error {
	served, err := c.provider()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: finding this program, to run it as the client: %w", err)
	}
	o := demo.Options{
		Listen: c.Listen, Rounds: c.Rounds, Duration: c.Duration, Concurrency: c.Concurrency, Provider: served,
		Client: []string{program, "loadgen"}, Stderr: s.err,
		Logger: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if c.Keep {
		o.Admin = []config.AdminAddress{c.Admin}
	}
	for _, g := range c.Groups {
		o.Groups = append(o.Groups, g.CurveID())
	}
	d, err := demo.Start(o)
	if err != nil {
		return err
	}
	defer d.Close()
	report, err := d.Measure(ctx)
	if err != nil {
		return err
	}
	if err := c.print(s, report); err != nil {
		return err
	}
	if failures := report.Failures(); len(failures) > 0 {
		return fmt.Errorf("demo: not everything worked:\n%s", strings.Join(failures, "\n"))
	}
	if c.Keep {
		keep(ctx, s, d)
	}
	return nil
}

// simulator is what make sim builds.
const simulator = "build/libcudasim.so"

// provider is the proxy's default but for the engine.
func (c *demoCommand) provider() (config.Provider, error) {
	p := config.Default().Provider
	switch c.GPU {
	case "auto":
		p.Engine = config.EngineAuto
	case "sim":
		library, err := filepath.Abs(simulator)
		if err == nil {
			_, err = os.Stat(library)
		}
		if err != nil {
			return p, fmt.Errorf("demo: no simulated GPU: %w; type make sim, and run the demonstration in the same folder", err)
		}
		// A batch takes the simulator a thousand times as long as a card.
		p.Engine, p.GPU.Library = config.EngineGPU, library
		p.GPU.MaxWait, p.GPU.Hang = config.Duration(time.Minute), config.Duration(5*time.Minute)
	}
	return p, nil
}

func (c *demoCommand) print(s streams, r *demo.Report) error {
	if c.JSON {
		out := json.NewEncoder(s.out)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	if err := r.WriteText(s.out, programName()); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, c.gpuNote(r))
	return err
}

// gpuNote says what could be misunderstood of what --gpu asked for.
func (c *demoCommand) gpuNote(r *demo.Report) string {
	switch {
	case c.GPU == "sim":
		return "The GPU was simulated by this machine's processors: its times, and the server's, say nothing of a card's.\n"
	case c.GPU == "auto" && len(r.KeyExchanges.Devices) == 0:
		return "No GPU took part, as this machine has none that can be used: the CPU computed all.\n" +
			"tlsproxy check says why, of a configuration with provider: {engine: gpu}.\n"
	}
	return ""
}

// keep waits for the end and tells what can be done meanwhile.
func keep(ctx context.Context, s streams, d *demo.Demo) {
	_, port, _ := net.SplitHostPort(d.Address())
	fmt.Fprintf(s.err, "\nThe proxy goes on at %s, until Ctrl-C. Its certificate vouches for itself; try\n\n  curl -kv https://localhost:%s/\n\nHow it is doing, and a button for more load: http://%s/\n", d.Address(), port, d.AdminAddress())
	<-ctx.Done()
}

// loadgenCommand makes this program the demonstration's client.
type loadgenCommand struct{}

// Run does what the demonstration's process asks for.
func (c *loadgenCommand) Run(ctx context.Context, s streams) error {
	p, err := provider.Open(provider.Config{Engine: provider.EngineCPU})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := groups.Register(p); err != nil {
		return err
	}
	return loadgen.Serve(ctx, s.in, s.out)
}
