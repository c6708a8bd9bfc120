package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// What is here finds keys that would do nothing beside what the others say, so that
// nobody relies on them. A key that has its default, as in the annotated example and in
// what YAML writes, is never blamed; nor are settings of something that is switched off
// by a key of its own, such as provider.gpu at provider.engine cpu, or a burst of
// handshakes beside a rate that is written as 0: package service warns of those.

// effects goes through the keys of the whole proxy.
func (v *validator) effects() {
	c, l := v.config, v.config.Limits
	if d := Default().Limits; l.HandshakeRatePerSource == 0 && !v.present("limits.handshake_rate_per_source") {
		v.idle(l.HandshakeBurstPerSource != d.HandshakeBurstPerSource, "limits.handshake_burst_per_source", "without limits.handshake_rate_per_source; set that too, or remove this")
		v.idle(l.Sources != d.Sources, "limits.sources", "without limits.handshake_rate_per_source; set that too, or remove this")
	}
	v.idle(c.Reload.Configuration && c.Reload.Poll == 0 && c.Reload.Every == 0, "reload.configuration", "while reload.poll and reload.every are 0; set one of them, or send SIGHUP when the file has changed")
	v.idle(c.Log.Requests && (c.Log.Level == LevelWarn || c.Log.Level == LevelError), "log.requests", "at log.level %s, as its lines are at info; write level: info", c.Log.Level)
	v.idle(c.Headers.ClientCert && !c.asksClients(), "headers.client_cert", "as no client of HTTP is asked for a certificate; see tls.client_auth")
	v.idle(v.present("acme") && !v.present("acme.names"), "acme", "without its key names; list the host names, or remove it")
	store := "tls.tickets.store"
	v.idle(v.present(store) && !v.present(store+".url"), store, "without its key url; write one such as redis://127.0.0.1:6379/0, or remove it")
}

// idle blames path if it is set, for having no effect.
func (v *validator) idle(set bool, path, because string, args ...any) {
	if set {
		v.errorf(path, "%s has no effect %s", path, fmt.Sprintf(because, args...))
	}
}

// asksClients reports whether a policy for HTTP asks for certificates.
func (c *Config) asksClients() bool {
	asks := func(mode ClientAuthMode) bool { return mode == ClientAuthRequest || mode == ClientAuthRequire }
	return asks(c.TLS.ClientAuth.Mode) || slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Mode == ModeHTTP && asks(h.TLS.ClientAuth.Mode) })
}

// poolEffects goes through the keys of one pool.
func (v *validator) poolEffects(path string, p *Pool) {
	d := defaultPool()
	v.idle(p.Balance != BalanceHash && p.HashKey != d.HashKey, path+".hash_key", "without balance: hash; write that too, or remove it")
	v.idle(p.Health.Path != d.Health.Path && (p.Health.Check == HealthCheckGRPC || p.Health.Check == HealthCheckConnect), path+".health.path", "with check: %s, which asks for no path; remove it", p.Health.Check)
	v.idle(p.Health.Host != "" && p.Health.Check == HealthCheckConnect, path+".health.host", "with check: connect, which asks for nothing; remove it")
	v.idle(p.TLS.ClassicalRetry && !slices.ContainsFunc(p.TLS.CurveIDs(), groups.PostQuantum), path+".tls.classical_retry", "as no group of %s.tls.groups is post-quantum; remove it", path)
	v.backendEffects(path, p)
}

// backendEffects is the part of poolEffects that depends on what the backends are.
func (v *validator) backendEffects(path string, p *Pool) {
	if len(p.URLs) == 0 || slices.ContainsFunc(p.URLs, func(u URL) bool { return u.URL == nil }) {
		return // at fault, and said so
	}
	d := defaultPool()
	if scheme := p.URLs[0].Scheme; !p.URLs[0].HTTP() {
		v.idle(p.Protocol != d.Protocol, path+".protocol", "on %s backends, which are not spoken to in HTTP; remove it", scheme)
		v.idle(p.Balance == BalanceHash && p.HashKey != d.HashKey, path+".hash_key", "on %s backends, for which there are no headers to look into; remove it", scheme)
		v.idle(p.MaxIdleConnections != d.MaxIdleConnections, path+".max_idle_connections", "on %s backends, to which each client has a connection of its own; remove it", scheme)
	}
	if !slices.ContainsFunc(p.URLs, URL.Secure) {
		v.idle(p.CA != "", path+".ca", "as no URL begins with https:// or tls://; write that, or remove it")
		v.idle(!reflect.DeepEqual(p.TLS, d.TLS), path+".tls", "as no URL begins with https:// or tls://; write that, or remove it")
	}
}
