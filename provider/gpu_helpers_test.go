//go:build (sim || gputest) && !nogpu

package provider

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// await waits for what is bound to happen.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !happened(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(until) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// checkExchange finishes an exchange without the Provider.
func checkExchange(t *testing.T, s *ctruprime.Scheme, c client, serverShare, secret []byte) {
	t.Helper()
	server, err := ecdh.X25519().NewPublicKey(serverShare[:32])
	if err != nil {
		t.Error(err)
		return
	}
	want, err := c.x.ECDH(server)
	if err != nil {
		t.Error(err)
		return
	}
	ss := make([]byte, s.SharedKeySize())
	if err := s.DecapsulateBytes(ss, c.sk, serverShare[32:]); err != nil || !bytes.Equal(secret, append(want, ss...)) {
		t.Errorf("a wrong secret (%v)", err)
	}
}

// exchanges runs complete exchanges from many goroutines at once, all of which
// must come to the same secret on both sides.
func exchanges(t *testing.T, p *Provider, s *ctruprime.Scheme, callers, each int) {
	t.Helper()
	c := ownClient(t, s)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				share, secret, err := p.ServerExchange(context.Background(), s, c.share)
				if err != nil {
					t.Error(err)
					continue
				}
				checkExchange(t, s, c, share, secret)
				if got, err := p.ClientFinish(context.Background(), s, c.x, c.sk, share); err != nil || !bytes.Equal(got, secret) {
					t.Errorf("the client's side differs (%v)", err)
				}
			}
		})
	}
	wg.Wait()
}
