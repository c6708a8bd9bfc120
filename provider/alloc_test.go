//go:build !race

package provider

import (
	"context"
	"log/slog"
	"testing"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// instantEngine serves everything with what was in memory before.
type instantEngine struct{ cpuEngine }

func (*instantEngine) serve(context.Context, []request) {}

// A call allocates its result and nothing else, whatever the engine does.
func TestCallAllocations(t *testing.T) {
	p := open(Config{KeyPoolSize: -1}, slog.New(slog.DiscardHandler), &instantEngine{})
	defer p.Close()
	s := ctruprime.Scheme761()
	c := ownClient(t, s)
	answer := make([]byte, x25519Size+s.CiphertextSize())
	for name, call := range map[string]func() error{
		"ServerExchange": func() error { _, _, err := p.ServerExchange(t.Context(), s, c.share); return err },
		"ClientFinish":   func() error { _, err := p.ClientFinish(t.Context(), s, c.x, c.sk, answer); return err },
		"Encapsulate":    func() error { _, _, err := p.Encapsulate(t.Context(), s, c.share[x25519Size:]); return err },
		"Decapsulate":    func() error { _, err := p.Decapsulate(t.Context(), s, c.sk, answer[x25519Size:]); return err },
		"GenerateKey":    func() error { _, err := p.GenerateKey(t.Context(), s); return err },
	} {
		n := testing.AllocsPerRun(1000, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 1 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
