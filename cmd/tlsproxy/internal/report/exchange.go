package report

import (
	"context"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
	"github.com/ctrutls/ctrutls/internal/bench/calls"
	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

var exchangePart = part{
	id: "exchange", title: "Key exchanges by many callers", weight: 2, missing: always,
	about: []string{
		"The server's half of a key exchange, from the client's share to its own and the secret, by so many goroutines at once without a pause: with X25519 alone, with X25519MLKEM768 by the standard library, and with X25519CTRUPrime761 by this project's provider with each of its engines. All take turns within each round. It is what the groups differ by; a handshake has the same costs for all of them beside that.",
	},
	measure: measureExchanges,
}

const (
	leastExchange = 50 * time.Millisecond // of one in a round, where there is time for fewRounds of it
	mostExchange  = 31                    // rounds
)

// callersOf are how many goroutines call at once: GPUs are for many.
func callersOf(g *gpus) []int {
	if g.missing() != "" {
		return []int{1, 16}
	}
	return []int{1, 16, 256, 1024, 4096}
}

// An exchanger makes the server's half of key exchanges.
type exchanger struct {
	group, by string
	exchange  func(context.Context) error
}

// enginesOf are the provider's engines that this machine has.
func enginesOf(g *gpus) []provider.Engine {
	if g.missing() != "" {
		return []provider.Engine{provider.EngineCPU}
	}
	return []provider.Engine{provider.EngineCPU, provider.EngineAuto, provider.EngineGPU}
}

func measureExchanges(ctx context.Context, m *measurement) (err error) {
	all, err := standardExchangers()
	if err != nil {
		return err
	}
	var open []*provider.Provider
	defer func() {
		for _, p := range open {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, e := range enginesOf(m.gpus) {
		p, err := provider.Open(provider.Config{Engine: e, Logger: m.options.Demo.Logger})
		if err != nil {
			return err
		}
		open = append(open, p)
		x, err := providerExchanger(p, e)
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	callers := callersOf(m.gpus)
	rows := make([]Row, 0, len(callers)*len(all))
	for _, n := range callers {
		for _, x := range all {
			row := Row{ID: x.id(n), Labels: []string{fmt.Sprint(n), x.group, x.by}, Bases: []string{all[0].id(n)}, X: float64(n)}
			if x.group != all[0].group { // which is 1
				row.Series = x.group + ", " + x.by
			}
			rows = append(rows, row)
		}
	}
	samples := m.time / time.Duration(len(rows))
	rounds := min(max(int(samples/leastExchange), fewRounds), mostExchange)
	for i := range rounds {
		m.step(fmt.Sprintf("round %d of %d", i+1, rounds))
		for j := range rows {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			rows[j].exchanges(ctx, callers[j/len(all)], samples/time.Duration(rounds), all[j%len(all)].exchange)
		}
	}
	m.section.Tables = []Table{{ID: "exchange-callers", Title: "The server's half of a key exchange", Labels: []string{"callers", "group", "by"},
		Metrics: []Metric{{"processor time", "µs", true}, {"rate", "exchanges/s", false}, {"latency p50", "µs", false}, {"latency p99", "µs", false}}, Bases: []string{"X25519"}, Rows: rows,
		Charts: []Chart{{ID: "exchange-callers", Kind: Lines, Title: "Processor time of a key exchange", X: "callers at once", Y: "X25519 = 1", Base: 0}}}}
	return nil
}

func (x exchanger) id(callers int) string {
	return fmt.Sprintf("%d/%s/%s", callers, x.group, x.by)
}

// standardExchangers are X25519, which the others are compared with, and X25519MLKEM768, as crypto/tls computes them.
func standardExchangers() ([]exchanger, error) {
	curve := ecdh.X25519()
	client, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	key, err := mlkem.GenerateKey768()
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	share, packed := client.PublicKey().Bytes(), key.EncapsulationKey().Bytes()
	classical := func(context.Context) error {
		public, err := curve.NewPublicKey(share)
		if err != nil {
			return err
		}
		own, err := curve.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		_, err = own.ECDH(public)
		return err
	}
	hybrid := func(ctx context.Context) error {
		public, err := mlkem.NewEncapsulationKey768(packed)
		if err != nil {
			return err
		}
		public.Encapsulate()
		return classical(ctx)
	}
	return []exchanger{{"X25519", "crypto/ecdh", classical}, {"X25519MLKEM768", "crypto/mlkem", hybrid}}, nil
}

// providerExchanger is X25519CTRUPrime761 by an engine.
func providerExchanger(p *provider.Provider, e provider.Engine) (exchanger, error) {
	s := ctruprime.Scheme761()
	client, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return exchanger{}, fmt.Errorf("report: %w", err)
	}
	sk, seed := make([]byte, s.PrivateKeySize()), make([]byte, ctruprime.KeySeedSize)
	rand.Read(seed)
	if err := s.GenerateKeyBytes(sk, seed); err != nil {
		return exchanger{}, fmt.Errorf("report: %w", err)
	}
	share := slices.Concat(client.PublicKey().Bytes(), s.PublicKeyOf(sk))
	return exchanger{provider.HybridName(s), "engine " + string(e), func(ctx context.Context) error {
		_, _, err := p.ServerExchange(ctx, s, share)
		return err
	}}, nil
}

// exchanges makes a round of a row. An error ends the row.
func (r *Row) exchanges(ctx context.Context, callers int, d time.Duration, exchange func(context.Context) error) {
	if r.Error != "" {
		return
	}
	before, err := machine.CPUTime()
	if err != nil {
		r.fail(err)
		return
	}
	result, err := calls.Run(ctx, callers, d, exchange)
	if err != nil {
		r.fail(err)
		return
	}
	after, err := machine.CPUTime()
	if err != nil {
		r.fail(err)
		return
	}
	n := float64(result.Calls)
	r.add(float64((after-before).Nanoseconds())/1e3/n, n/result.Elapsed.Seconds(), micros(result.P50), micros(result.P99))
}
