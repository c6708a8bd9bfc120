package redisstore

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tickets"
)

func TestMain(m *testing.M) {
	// go-redis's dialling notices within a second that its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestPut keeps the first value, for its time only, under the prefix.
func TestPut(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("proxy", "secret")
	s := open(t, Options{URL: "redis://" + server.Addr() + "/3", Username: "proxy", Password: "secret", Prefix: "p:"})
	ctx := t.Context()
	if got, err := s.Get(ctx, "a"); err != nil || got != nil {
		t.Errorf("nothing there: %q %v", got, err)
	}
	for _, value := range []string{"one", "two"} {
		if got, err := s.Put(ctx, "a", []byte(value), time.Hour); err != nil || string(got) != "one" {
			t.Errorf("put %s: %q %v", value, got, err)
		}
	}
	if got, err := s.Get(ctx, "a"); err != nil || string(got) != "one" {
		t.Errorf("got %q %v", got, err)
	}
	if !server.DB(3).Exists("p:a") || server.DB(3).TTL("p:a") != time.Hour {
		t.Error("not under its name, or not for its time")
	}
	server.FastForward(time.Hour + time.Second)
	if got, err := s.Get(ctx, "a"); err != nil || got != nil {
		t.Errorf("after its time: %q %v", got, err)
	}
	server.DB(3).Set("p:large", strings.Repeat("x", maxValueBytes+1))
	if _, err := s.Get(ctx, "large"); err == nil || err.Error() != "redisstore: the value of p:large is larger than 4096 bytes" {
		t.Errorf("a large value: %v", err)
	}
}

func TestErrors(t *testing.T) {
	if _, err := Open(Options{URL: "http://a"}); err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") {
		t.Errorf("a URL of another kind: %v", err)
	}
	server := miniredis.RunT(t)
	server.RequireAuth("secret")
	wrong := open(t, Options{URL: "redis://" + server.Addr(), Password: "wrong"})
	if _, err := wrong.Get(t.Context(), "a"); err == nil || strings.Contains(err.Error(), "wrong") && strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password: %v", err)
	}
	address := server.Addr()
	server.Close()
	gone := open(t, Options{URL: "redis://" + address})
	if _, err := gone.Put(t.Context(), "a", nil, time.Hour); err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") {
		t.Errorf("no server: %v", err)
	}
}

// proxy is one that shares its ticket keys.
type proxy struct {
	keys *tickets.Keys
	mu   sync.Mutex
	more *sync.Cond
	told []error
}

// share starts one, with a secret.
func share(t *testing.T, url string, secrets ...[]byte) *proxy {
	t.Helper()
	o := tickets.Options{Period: 8 * time.Second, Lifetime: time.Hour}
	keys, err := tickets.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{keys: keys}
	p.more = sync.NewCond(&p.mu)
	o.Period, o.Secrets = time.Hour, secrets
	stop, err := keys.Share(context.Background(), o, open(t, Options{URL: url, Prefix: "tickets:"}), func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told = append(p.told, err)
		p.more.Broadcast()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return p
}

func (p *proxy) seal(t *testing.T) []byte {
	t.Helper()
	ticket, err := p.keys.Seal(&tickets.Scope{}, []byte("session"))
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func (p *proxy) opens(ticket []byte) bool { return p.keys.Open(&tickets.Scope{}, ticket) != nil }

// TestSharedKeys has proxies open each other's tickets, by a server that holds no
// key in the clear; those with another secret, or without the server, go on alone.
func TestSharedKeys(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	secret, other := bytes.Repeat([]byte("s"), 32), bytes.Repeat([]byte("o"), 32)
	a, b := share(t, url, secret), share(t, url, other, secret)
	if !b.opens(a.seal(t)) || !a.opens(b.seal(t)) {
		t.Error("a ticket does not open at the other proxy")
	}
	ticket := a.seal(t)
	for _, name := range server.Keys() {
		value, err := server.Get(name)
		if err != nil || !strings.HasPrefix(name, "tickets:3600:") || server.TTL(name) != 4*time.Hour {
			t.Errorf("%s, for %v (%v)", name, server.TTL(name), err)
		}
		if strings.Contains(value, string(ticket[:8])) {
			t.Errorf("%s holds a key in the clear", name)
		}
	}
	if len(server.Keys()) != 2 {
		t.Errorf("keys of the present period and the next are %v", server.Keys())
	}

	alone := share(t, url, other)
	if alone.opens(ticket) || a.opens(alone.seal(t)) {
		t.Error("tickets open with another secret")
	}
	if !alone.opens(alone.seal(t)) {
		t.Error("a proxy with another secret does not open its own tickets")
	}
	if len(alone.told) != 1 || alone.told[0] == nil || !strings.Contains(alone.told[0].Error(), "not sealed under one of our secrets") {
		t.Errorf("told of %v", alone.told)
	}
	if len(a.told) > 0 {
		t.Errorf("told of %v", a.told)
	}

	server.SetError("LOADING")
	without := share(t, url, secret)
	if len(without.told) != 1 || without.told[0] == nil || !without.opens(without.seal(t)) {
		t.Errorf("without the server: %v", without.told)
	}
}
