package service

import (
	"crypto/tls"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// planOf is a Plan of lines of a configuration.
func planOf(t *testing.T, lines string) *Plan {
	t.Helper()
	return plan(t, func(c *config.Config) {
		parsed, err := config.Parse("c.yaml", []byte("certificates: [{cert: a, key: b}]\ntls: {groups: [X25519]}\n"+lines))
		if err != nil {
			t.Fatal(err)
		}
		*c = *parsed
	})
}

// TestPoolOptions: every key of a pool reaches package backend.
func TestPoolOptions(t *testing.T) {
	p := planOf(t, `backends: {urls: http://b}
pools:
  full:
    urls: ["https://one:1/base", "https://two"]
    protocol: auto
    balance: hash
    hash_key: cookie session
    tls: {server_name: three, groups: [X25519MLKEM768, X25519], min_version: "1.3", classical_retry: true}
    health: {check: http, path: /up, host: h, interval: 1s, timeout: 2s, healthy_after: 3, unhealthy_after: 4}
    retries: 5
    eject_after: 6
    eject_for: 7s
    max_idle_connections: 8
    resolve: 9s
timeouts: {backend_connect: 10s, backend_write: 11s, backend_response: 12s, backend_read: 13s, backend_idle: 14s}
limits: {header_bytes: 15KiB}
`)
	logger := slog.New(slog.DiscardHandler)
	got := p.poolOptions("full", logger)
	want := backend.Options{
		Name:     "full",
		URLs:     []*url.URL{{Scheme: "https", Host: "one:1", Path: "/base"}, {Scheme: "https", Host: "two"}},
		Protocol: backend.Auto, Balance: backend.Hash, Key: backend.Key{Cookie: "session"},
		TLS:            &tls.Config{ServerName: "three", MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519}},
		ClassicalRetry: []tls.CurveID{tls.X25519},
		Health:         backend.Health{Check: backend.CheckHTTP, Path: "/up", Host: "h", Interval: time.Second, Timeout: 2 * time.Second, HealthyAfter: 3, UnhealthyAfter: 4},
		Retries:        5, EjectAfter: 6, EjectFor: 7 * time.Second, MaxIdleConnections: 8, Resolve: 9 * time.Second,
		ConnectTimeout: 10 * time.Second, WriteTimeout: 11 * time.Second, ResponseTimeout: 12 * time.Second, ReadTimeout: 13 * time.Second, IdleTimeout: 14 * time.Second,
		MaxHeaderBytes: 15 << 10, Logger: logger,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\n%+v\nwant\n%+v\n%+v", got, got.TLS, want, want.TLS)
	}
}

// TestPoolWords: each word of the configuration means one thing to package
// backend, and not what is meant by none.
func TestPoolWords(t *testing.T) {
	for word, want := range map[config.BackendProtocol]backend.Protocol{"http1": backend.HTTP1, "h2": backend.HTTP2, "h2c": backend.H2C, "auto": backend.Auto} {
		if got, ok := backendProtocols[word]; got != want || !ok || new(config.BackendProtocol).UnmarshalText([]byte(word)) != nil {
			t.Errorf("protocol %s is %v", word, got)
		}
	}
	for word, want := range map[config.Balance]backend.Balance{"round_robin": backend.RoundRobin, "least_connections": backend.LeastConnections, "hash": backend.Hash} {
		if got, ok := balances[word]; got != want || !ok || new(config.Balance).UnmarshalText([]byte(word)) != nil {
			t.Errorf("balance %s is %v", word, got)
		}
	}
	for word, want := range map[config.HealthCheck]backend.Check{"none": backend.NoCheck, "connect": backend.CheckConnect, "http": backend.CheckHTTP, "grpc": backend.CheckGRPC} {
		if got, ok := checks[word]; got != want || !ok || new(config.HealthCheck).UnmarshalText([]byte(word)) != nil {
			t.Errorf("check %s is %v", word, got)
		}
	}
	for key, want := range map[string]backend.Key{"source": {}, "header X-Key": {Header: "X-Key"}, "cookie session": {Cookie: "session"}} {
		p := planOf(t, "backends: {urls: http://b, balance: hash, hash_key: "+key+"}\n")
		if got := p.poolOptions(config.DefaultPool, slog.Default()).Key; got != want {
			t.Errorf("hash_key %s is %+v", key, got)
		}
	}
}

// TestResolveWarning: whoever has addresses looked up is told that they are none.
func TestResolveWarning(t *testing.T) {
	p := planOf(t, "backends: {urls: ['http://127.0.0.1', 'http://[::1]:8080'], resolve: 8s}\npools: {named: {urls: ['http://127.0.0.1', 'http://b'], resolve: 8s}}\n")
	if got := p.poolWarnings(time.Now()); !slices.Equal(got, []string{"backends.resolve is set, but no URL of the pool holds a name: nothing is looked up"}) {
		t.Errorf("%q", got)
	}
}

// TestUnusedPools: a pool that nothing leads to is hardly meant.
func TestUnusedPools(t *testing.T) {
	p := planOf(t, "backends: {urls: http://b}\npools: {used: {urls: http://b}, routed: {urls: http://b}, idle: {urls: http://b}}\n"+
		"hosts: [{names: a.example, pool: used, routes: [{path: /x, pool: routed}]}]\n")
	if got := unusedPools(p.Config); !slices.Equal(got, []string{"pools.idle: no host leads to this pool"}) {
		t.Errorf("%q", got)
	}
	if p.Config.UnknownHost = config.UnknownHostRefuse; !slices.Contains(p.Warnings(), "backends: no host leads to this pool") {
		t.Errorf("%q", p.Warnings())
	}
}
