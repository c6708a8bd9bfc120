//go:build !nogpu

package provider

import (
	"bytes"
	"testing"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// When the CPU looks at a device's result again it uses the key that the device used.
func TestEphemeralsNotForChecks(t *testing.T) {
	s := ctruprime.Scheme761()
	c := ownClient(t, s)
	p, ready := openStocked(t, s, c)
	seed, public := seedOf(t)
	r := request{op: opServerExchange, scheme: s, peer: c.share, own: seed, out: make([]byte, outSize(opServerExchange, s)), fresh: true}
	(&gpuEngine{cpu: p.engine.(*cpuEngine)}).recompute(&r)
	if r.err != nil || !bytes.Equal(r.out[:x25519Size], public) || len(ready.stock) != ephemeralStock {
		t.Errorf("%v; what is computed again does not begin with its key, or %d keys are left", r.err, len(ready.stock))
	}
}
