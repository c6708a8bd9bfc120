package report

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/demo"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/tlsext"
)

var handshakePart = part{
	id: "handshake", title: "Handshakes", weight: 8, missing: always,
	about: []string{
		"Full TLS 1.3 handshakes, ECDSA P-256 certificate, no resumption, through tlsproxy in this process, from a load client in another process on the same cores. Groups take turns within each round. The server's processor time, for each handshake, is its process's alone and holds everything: system calls, key schedule, certificate signature, key exchange. Rate and latency are the client's, too, which does its own half on the same cores.",
		"Engines are measured one after another, each beside X25519 through the same server.",
	},
	measure: measureHandshakes,
}

// On a machine that others use, too, many short rounds tell more than a few long ones.
const (
	leastSample   = 200 * time.Millisecond // of a group in a round, where there is time for fewRounds of it
	mostHandshake = 31                     // rounds
)

// handshakeRounds divides the time among the samples of a round.
func (m *measurement) handshakeRounds(samples int) (rounds int, sample time.Duration) {
	all := m.time * 9 / 10 / time.Duration(samples) // what is between the samples takes some time, too
	rounds = min(max(int(all/leastSample), fewRounds), mostHandshake)
	return rounds, min(max(all/time.Duration(rounds), time.Millisecond), demo.MaxDuration)
}

// An engine is a way to serve key exchanges.
type engine struct {
	name     string
	provider func(*config.Provider)
}

// engines are those that this machine has.
func engines(g *gpus) []engine {
	all := []engine{{"cpu", func(p *config.Provider) { p.Engine = config.EngineCPU }}}
	if g.missing() != "" {
		return all
	}
	return append(all,
		engine{"auto", func(p *config.Provider) { p.Engine = config.EngineAuto }},
		engine{"gpu", func(p *config.Provider) { p.Engine = config.EngineGPU }},
		engine{"auto, signatures too", func(p *config.Provider) { p.Engine, p.GPU.Sign = config.EngineAuto, true }})
}

// concurrencies are how many connections are open at once: GPUs are for many.
func concurrencies(g *gpus) []int {
	if g.missing() != "" {
		return []int{1, 16}
	}
	return []int{16, 256, 1024}
}

// handshakeGroups are what is measured, X25519 first. In FIPS 140 mode there are fewer.
func handshakeGroups() []tls.CurveID {
	all := []tls.CurveID{tls.X25519, tls.X25519MLKEM768}
	if groups.HookPresent() {
		all = append(all, tlsext.X25519CTRUPrime653, tlsext.X25519CTRUPrime761, tlsext.X25519CTRUPrime1277)
	}
	return slices.DeleteFunc(all, func(id tls.CurveID) bool { return !groups.Available(id) })
}

func measureHandshakes(ctx context.Context, m *measurement) error {
	ids, levels, all := handshakeGroups(), concurrencies(m.gpus), engines(m.gpus)
	if !groups.HookPresent() {
		m.section.About = append(m.section.About, "This binary was built without the hook in crypto/tls, so that it has the groups of crypto/tls only: go tool gotls build ./cmd/tlsproxy gives it the others.")
	}
	base := groups.Name(ids[0])
	t := Table{ID: "handshake-groups", Title: "Full handshakes by engine and group", Labels: []string{"engine", "connections at once", "group"},
		Metrics: []Metric{{"server CPU", "µs", true}, {"rate", "handshakes/s", false}, {"latency p50", "ms", true}, {"latency p99", "ms", false}},
		Bases:   []string{base},
		Charts: []Chart{{ID: "handshake-cpu", Kind: Bars, Title: fmt.Sprintf("Server's processor time for a handshake, %d connections at once", levels[len(levels)-1]),
			Y: base + " by the same engine = 1", Base: 0}}}
	if len(all) > 1 {
		t.Metrics = append(t.Metrics, Metric{"key exchanges by a GPU", "%", false})
	}
	o := m.options.Demo
	o.Listen, o.Groups, o.Concurrency = "127.0.0.1:0", ids, 1
	o.Rounds, o.Duration = m.handshakeRounds(len(ids) * len(levels) * len(all))
	for _, e := range all {
		rows, err := m.engine(ctx, o, e, levels)
		if err != nil && ctx.Err() != nil {
			return err
		}
		t.Rows = append(t.Rows, rows...)
	}
	m.section.Tables = []Table{t}
	return nil
}

// engine measures all levels with one engine. The error is that of the last row that there is.
func (m *measurement) engine(ctx context.Context, o demo.Options, e engine, levels []int) (rows []Row, err error) {
	o.Provider = config.Default().Provider
	e.provider(&o.Provider)
	failed := func(what error) ([]Row, error) {
		return append(rows, Row{ID: e.name, Labels: []string{e.name, "", ""}, Error: inLine(what)}), what
	}
	m.step("engine " + e.name)
	d, err := demo.Start(o)
	if err != nil {
		return failed(err)
	}
	defer func() {
		if closing := d.Close(); closing != nil && err == nil {
			rows, err = failed(closing)
		}
	}()
	for i, concurrency := range levels {
		m.step(fmt.Sprintf("engine %s, %d at once", e.name, concurrency))
		before := d.KeyExchanges()
		samples, err := d.Handshakes(ctx, concurrency)
		if err != nil {
			return failed(fmt.Errorf("%d at once: %w", concurrency, err))
		}
		byGPU := gpuShare(before, d.KeyExchanges())
		for j, id := range o.Groups {
			row := handshakeRow(e.name, concurrency, groups.Name(id), groups.Name(o.Groups[0]), samples[j])
			if groups.Ours(id) {
				row.Values = append(row.Values, byGPU)
			}
			if i == len(levels)-1 && j > 0 { // the first is 1
				row.Series, row.Name = "engine "+e.name, groups.Name(id)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// gpuShare is how many in a hundred of the exchanges between two moments GPUs computed: of all groups together.
func gpuShare(before, after demo.KeyExchanges) []float64 {
	if after.Served == before.Served || len(after.Devices) == 0 {
		return nil
	}
	return []float64{100 * float64(after.ByGPU-before.ByGPU) / float64(after.Served-before.Served)}
}

func handshakeRow(engine string, concurrency int, group, base string, samples []comparison.Sample) Row {
	id := func(group string) string { return fmt.Sprintf("%s/%d/%s", engine, concurrency, group) }
	r := Row{ID: id(group), Labels: []string{engine, fmt.Sprint(concurrency), group}, Bases: []string{id(base)}, Values: make([][]float64, 4)}
	if err := sampleError(samples); err != nil {
		r.Error, r.Values = err.Error(), nil
		return r
	}
	for _, s := range samples {
		n := float64(s.Completed)
		for metric, v := range []float64{float64(s.ServerCPU.Nanoseconds()) / 1e3 / n, n / s.Elapsed.Seconds(), s.Handshake.P50.Seconds() * 1e3, s.Handshake.P99.Seconds() * 1e3} {
			r.Values[metric] = append(r.Values[metric], v)
		}
	}
	return r
}

// sampleError is what went wrong, if anything did.
func sampleError(samples []comparison.Sample) error {
	failed, texts := 0, []string(nil)
	for _, s := range samples {
		failed += s.Failed
		texts = append(texts, slices.Concat(s.Errors, s.Faults)...)
		if s.Completed == 0 && s.Failed == 0 {
			texts = append(texts, "no handshake was completed in a round")
		}
	}
	if failed == 0 && len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	const most = 3
	return errors.New(fmt.Sprintf("%d failed, such as: ", failed) + strings.Join(texts[:min(len(texts), most)], "; "))
}
