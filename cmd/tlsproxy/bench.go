package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
	"github.com/ctrutls/ctrutls/provider"
)

type benchCommand struct {
	Addresses []string `arg:"" optional:"" name:"address" help:"host:port of the server; several of one server are used in turn."`

	Groups      []config.Group `default:"X25519" help:"The groups to measure, each by itself; several are compared with the first (${default})."`
	Concurrency []int          `default:"16" help:"Connections at once; several levels are measured one after another (${default})."`
	Rate        float64        `help:"Connections begun each second, up to --concurrency at once; latency then counts from when one was due. 0: each as soon as one has ended."`
	Duration    time.Duration  `default:"5s" help:"How long a measurement takes; 0: until --count (${default})."`
	Count       int            `help:"How many connections a measurement makes at most."`
	Rounds      int            `default:"1" help:"Measurements of each row, in turn with the others; medians are printed (${default})."`
	WarmUp      time.Duration  `default:"500ms" help:"How long each row runs before it is measured (${default})."`

	Resume   bool     `help:"Resume a session in each handshake."`
	Requests int      `help:"Requests over HTTP/1.1 on each connection, one after another; 0: none."`
	Path     string   `default:"/" help:"What the requests ask for (${default})."`
	Source   []string `placeholder:"IP" help:"Local addresses to connect from, in turn; for more connections than one has ports."`
	KeyPool  int      `default:"4096" help:"Key pairs of CTRU-Prime made ahead of each measurement (${default})."`

	ServerName string `placeholder:"NAME" help:"The name to ask for and verify; that of the first address if it is not given."`
	CA         string `name:"ca" placeholder:"FILE" help:"PEM file of the authorities to verify the server with; the system's if it is not given."`
	Insecure   bool   `help:"Do not verify the server."`
	ServerPID  int    `name:"server-pid" placeholder:"PID" help:"The server's process, if it runs on this machine: its processor time is measured too."`

	Plan string `placeholder:"FILE" help:"Rows to compare, of several servers: YAML, see tlsproxy bench --plan-help."`
	JSON bool   `name:"json" help:"Print the report as JSON."`
	Save string `placeholder:"FILE" help:"Write the report to a file too, as JSON."`

	PlanHelp planHelp `help:"Explain --plan's file."`
}

// Run measures and prints, also what there is when it is interrupted. It fails if any
// connection did.
func (c *benchCommand) Run(ctx context.Context, s streams) error {
	plan, err := c.plan()
	if err != nil {
		return err
	}
	stock, err := openStock(c.KeyPool)
	if err != nil {
		return err
	}
	defer stock.Close()
	defer raiseHeapFloor()()
	plan.Ready = stock.fill
	if len(plan.Concurrency) > 1 {
		plan.Progress = s.err
	}
	report, err := plan.Run(ctx, programName())
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := c.print(s, report); err != nil {
		return err
	}
	if failures := report.Failures(); len(failures) > 0 {
		return fmt.Errorf("bench: not everything worked:\n%s", strings.Join(failures, "\n"))
	}
	return nil
}

func (c *benchCommand) print(s streams, r *comparison.Report) error {
	if c.Save != "" {
		if err := saveReport(c.Save, r); err != nil {
			return fmt.Errorf("bench: --save: %w", err)
		}
	}
	if c.JSON {
		return writeJSON(s.out, r)
	}
	return r.WriteText(s.out)
}

func saveReport(file string, r *comparison.Report) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := writeJSON(f, r); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func writeJSON(w io.Writer, r *comparison.Report) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

// plan is what the flags, or they and the file of rows, lead to.
func (c *benchCommand) plan() (*comparison.Plan, error) {
	p := &comparison.Plan{Concurrency: c.Concurrency, Rounds: c.Rounds, WarmUp: c.WarmUp,
		Span: loadgen.Span{Duration: c.Duration, Count: c.Count}}
	if c.Plan != "" && len(c.Addresses) > 0 {
		return nil, errors.New("bench: addresses are given both as arguments and in --plan; give them in one place")
	}
	if c.Plan == "" && len(c.Addresses) == 0 {
		return nil, errors.New("bench: no server; give its host:port, or a file of rows with --plan")
	}
	rows := c.rows()
	if c.Plan != "" {
		var err error
		if rows, err = readRows(c.Plan); err != nil {
			return nil, err
		}
	}
	for _, row := range rows {
		t, err := c.target(row)
		if err != nil {
			return nil, err
		}
		p.Targets = append(p.Targets, *t)
	}
	return p, nil
}

// rows are the groups of the command line.
func (c *benchCommand) rows() []benchRow {
	var rows []benchRow
	for i, g := range c.Groups {
		rows = append(rows, benchRow{Name: g.String(), Addresses: c.Addresses, ServerPID: c.ServerPID, Group: g.String(), Base: i == 0 && len(c.Groups) > 1})
	}
	return rows
}

// target is a row with what the flags say of all.
func (c *benchCommand) target(row benchRow) (*comparison.Target, error) {
	id, ok := groups.ByName(row.Group)
	if !ok {
		return nil, fmt.Errorf("bench: %s: unknown group %q; there are %s", row.Name, row.Group, strings.Join(groups.Names(groups.All()), ", "))
	}
	load := loadgen.Load{Addresses: row.Addresses, Sources: c.Source, ServerName: c.ServerName, Group: id, Insecure: c.Insecure,
		Resume: c.Resume, Requests: c.Requests, Path: c.Path, Rate: c.Rate}
	if row.Requests != nil {
		load.Requests = *row.Requests
	}
	if row.Resume != nil {
		load.Resume = *row.Resume
	}
	if load.ServerName == "" && len(row.Addresses) > 0 {
		load.ServerName, _, _ = net.SplitHostPort(row.Addresses[0])
	}
	if c.CA != "" {
		var err error
		if load.Authorities, err = os.ReadFile(c.CA); err != nil {
			return nil, fmt.Errorf("bench: --ca: %w", err)
		}
	}
	return &comparison.Target{Name: row.Name, Load: load, ServerPID: row.ServerPID, Base: row.Base}, nil
}

// stock holds the client's provider and its key pairs.
type stock struct{ *provider.Provider }

func openStock(size int) (*stock, error) {
	if size < 1 {
		return nil, fmt.Errorf("bench: a pool of %d key pairs; possible are 1 to %d", size, provider.MaxKeyPoolSize)
	}
	p, err := provider.Open(provider.Config{Engine: provider.EngineCPU, KeyPoolSize: size})
	if err != nil {
		return nil, err
	}
	if err := groups.Register(p); err != nil {
		p.Close()
		return nil, err
	}
	return &stock{p}, nil
}

// fill waits until the pool for a target's group is full.
func (s *stock) fill(ctx context.Context, t comparison.Target) error {
	scheme := groups.Scheme(t.Load.Group)
	if scheme == nil {
		return nil
	}
	return s.FillKeyPool(ctx, scheme)
}
