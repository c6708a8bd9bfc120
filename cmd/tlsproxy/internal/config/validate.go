package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// validate finds what no single value shows: keys that are missing, that
// repeat, or that contradict each other. A key that is already at fault in
// found is not blamed again.
func (c *Config) validate(found Errors) Errors {
	v := validator{config: c, found: found}
	v.certificates()
	v.acme()
	v.listeners()
	v.nonEmpty("tls.groups", len(c.TLS.Groups))
	v.nonEmpty("tls.alpn", len(c.TLS.ALPN))
	unique(&v, "tls.groups", c.TLS.Groups, Group.String)
	unique(&v, "admin.listen", c.Admin.Listen, func(a AdminAddress) string { return string(a) })
	unique(&v, "tls.alpn", c.TLS.ALPN, func(p Protocol) string { return string(p) })
	v.pools()
	v.hosts()
	v.policies()
	v.tracing()
	v.gpus()
	v.effects()
	for _, interval := range []struct {
		key string
		of  Duration
	}{{"reload.poll", c.Reload.Poll}, {"reload.every", c.Reload.Every}} {
		if interval.of > 0 && interval.of < shortestReload {
			v.errorf(interval.key, "%s: %v is less than %v; 0 is never", interval.key, interval.of, shortestReload)
		}
	}
	if l := c.Timeouts.Lifetime; l > 0 && l < shortestLifetime {
		v.errorf("timeouts.lifetime", "timeouts.lifetime: %v is less than %v; 0 is no bound", l, shortestLifetime)
	}
	if c.Limits.Handshakes > c.Limits.Connections && !v.atFault("limits.connections") {
		v.errorf("limits.handshakes", "limits.handshakes (%d) is more than limits.connections (%d); a connection in its handshake counts as one",
			c.Limits.Handshakes, c.Limits.Connections)
	}
	return v.errs
}

// gpus checks what no machine has.
func (v *validator) gpus() {
	const path = "provider.gpu.devices"
	devices := v.config.Provider.GPU.Devices
	unique(v, path, devices, strconv.Itoa)
	for i, number := range devices {
		if number < 0 {
			v.errorf(fmt.Sprintf("%s[%d]", path, i), "%s: %d is no GPU's number; they count from 0", path, number)
		}
	}
}

// shortestReload keeps a proxy from doing little else.
const shortestReload = Duration(100 * time.Millisecond)

// shortestLifetime is more than a handshake and a first request take: connections
// that end with those would make clients connect without an end.
const shortestLifetime = Duration(10 * time.Second)

type validator struct {
	config *Config
	found  Errors
	errs   Errors
}

// errorf blames path unless something there is at fault already.
func (v *validator) errorf(path, format string, args ...any) {
	if !v.atFault(path) {
		v.errs = append(v.errs, v.config.Errorf(path, format, args...))
	}
}

// atFault reports whether decoding found something at the place of path.
func (v *validator) atFault(path string) bool {
	at := v.config.place(path)
	return slices.ContainsFunc(v.found, func(f *Error) bool { return f.Line == at.line && f.Column == at.column })
}

// present reports whether the file holds path.
func (v *validator) present(path string) bool {
	_, ok := v.config.positions[path]
	return ok
}

// missing blames the lack of a required key. Where the whole file is the
// place, the fault of another key that stands there says nothing about it.
func (v *validator) missing(path, advice string) {
	parent := path[:max(strings.LastIndex(path, "."), 0)]
	switch {
	case v.present(path):
		v.errorf(path, "%s is empty; %s", path, advice)
	case v.present(parent):
		v.errorf(path, "missing key %q; %s", path, advice)
	default:
		v.errs = append(v.errs, v.config.Errorf(path, "missing key %q; %s", path, advice))
	}
}

func (v *validator) nonEmpty(path string, n int) {
	if n == 0 {
		v.errorf(path, "%s is an empty list; remove the key to have its default", path)
	}
}

// certificates checks those of the whole proxy. They are not needed if every host
// has its own, or passes TLS on.
func (v *validator) certificates() {
	if len(v.config.Certificates) == 0 && len(v.config.ACME.Names) == 0 && v.needsCertificates() {
		v.missing("certificates", "name the PEM files of at least one certificate: a list of {cert: FILE, key: FILE} or {folder: FOLDER}")
	}
	v.certificateFiles("certificates", v.config.Certificates)
}

func (v *validator) needsCertificates() bool {
	rest := v.config.UnknownHost == UnknownHostDefault
	for _, h := range v.config.Hosts {
		if h.Mode != ModePassthrough && len(h.Certificates) == 0 {
			return true
		}
		rest = rest && !slices.Contains(h.Names, AnyHost)
	}
	return rest
}

func (v *validator) certificateFiles(list string, all []Certificate) {
	for i, cert := range all {
		path := fmt.Sprintf("%s[%d]", list, i)
		if cert.Folder != "" {
			if cert.Cert != "" || cert.Key != "" {
				v.errorf(path, "%s has folder beside cert or key; make them two entries", path)
			}
			continue
		}
		for _, file := range []struct{ key, name string }{{"cert", cert.Cert}, {"key", cert.Key}} {
			if file.name == "" && !v.present(path+"."+file.key) && !v.present(path+".folder") {
				v.errorf(path, "missing key %q in %s; each certificate needs cert and key, or folder", file.key, path)
			}
		}
	}
}

// acme checks what would keep an authority from issuing a certificate.
func (v *validator) acme() {
	c := v.config.ACME
	if len(c.Names) > 0 && !c.AgreeTerms {
		v.errorf("acme.agree_terms", "acme.agree_terms is not true; read the terms of the authority at %s, and if you agree to them write agree_terms: true", c.Directory)
	}
	unique(v, "acme.names", c.Names, func(n HostName) string { return string(n) })
	for i, name := range c.Names {
		if strings.HasPrefix(string(name), "*") {
			v.errorf(fmt.Sprintf("acme.names[%d]", i), "acme.names: %s is a wildcard, for which authorities want a challenge by DNS; list the names themselves", name)
		}
	}
	if u, err := url.Parse(c.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		v.errorf("acme.directory", "acme.directory: %q is not a URL that begins with https://", c.Directory)
	}
}

// unique blames entries of a list that were there before.
func unique[T any](v *validator, path string, list []T, text func(T) string) {
	seen := make(map[string]bool, len(list))
	for i, item := range list {
		s := text(item)
		if s != "" && seen[s] {
			v.errorf(fmt.Sprintf("%s[%d]", path, i), "%s names %s twice", path, s)
		}
		seen[s] = true
	}
}

const urlsAdvice = "name at least one backend, such as http://127.0.0.1:8080"

func (v *validator) pools() {
	if _, ok := v.config.Pools[DefaultPool]; ok {
		v.errorf("pools."+DefaultPool, "the pool %q is described by the key backends; choose another name", DefaultPool)
	}
	if len(v.config.Backends.URLs) == 0 && (v.config.DefaultPoolUsed() || !v.config.Backends.isDefault()) {
		v.missing("backends.urls", urlsAdvice)
	}
	v.pool("backends", &v.config.Backends)
	for name, p := range v.config.Pools {
		path := "pools." + name
		if len(p.URLs) == 0 {
			v.missing(path+".urls", urlsAdvice)
		}
		v.pool(path, &p)
	}
}

// isDefault reports whether a pool without backends says nothing else either, as YAML
// writes a default pool that no client needs.
func (p Pool) isDefault() bool {
	p.URLs = nil
	return reflect.DeepEqual(p, defaultPool())
}

// DefaultPoolUsed reports whether some client can end up at DefaultPool.
func (c *Config) DefaultPoolUsed() bool {
	caught := false
	for _, h := range c.Hosts {
		if h.Pool == DefaultPool || slices.ContainsFunc(h.Routes, func(r Route) bool { return r.Pool == DefaultPool }) {
			return true
		}
		caught = caught || slices.Contains(h.Names, AnyHost)
	}
	return !caught && c.UnknownHost == UnknownHostDefault
}

// pool finds what contradicts itself within one pool.
func (v *validator) pool(path string, p *Pool) {
	unique(v, path+".urls", p.URLs, func(u URL) string {
		if u.URL == nil {
			return "" // at fault, and said so
		}
		return strings.ToLower(u.String())
	})
	v.schemes(path, p)
	v.nonEmpty(path+".tls.groups", len(p.TLS.Groups))
	unique(v, path+".tls.groups", p.TLS.Groups, Group.String)
	if (p.TLS.Cert == "") != (p.TLS.Key == "") {
		v.errorf(path+".tls", "%s.tls needs both cert and key, or neither", path)
	}
	if p.TLS.ClassicalRetry && !slices.ContainsFunc(p.TLS.CurveIDs(), groups.Classical) {
		v.errorf(path+".tls.classical_retry", "%s.tls.classical_retry needs a classical group, such as X25519, in %s.tls.groups", path, path)
	}
	if p.Health.Check == HealthCheckNone && v.present(path+".health") && !v.present(path+".health.check") {
		v.errorf(path+".health", "%s.health does nothing without its key check; add check: http, grpc or connect", path)
	}
	if !strings.HasPrefix(p.Health.Path, "/") {
		v.errorf(path+".health.path", "%s.health.path: %q does not start with /", path, p.Health.Path)
	}
	v.poolEffects(path, p)
}

// schemes finds backends of a pool that cannot answer alike, or not in the
// pool's protocol.
func (v *validator) schemes(path string, p *Pool) {
	for i, u := range p.URLs {
		at := fmt.Sprintf("%s.urls[%d]", path, i)
		switch first := p.URLs[0]; {
		case u.URL == nil || first.URL == nil: // at fault, and said so
		case u.HTTP() != first.HTTP():
			v.errorf(at, "%s has both %s and %s backends; a pool speaks HTTP or it does not", path, first.Scheme, u.Scheme)
		case p.Protocol == BackendHTTP2 && u.Scheme != "https":
			v.errorf(at, "%s: protocol h2 needs https backends; for http backends write protocol: h2c", path)
		case p.Protocol == BackendH2C && u.Secure():
			v.errorf(at, "%s: protocol h2c needs http backends; for https backends write protocol: h2", path)
		case !u.HTTP() && (p.Health.Check == HealthCheckHTTP || p.Health.Check == HealthCheckGRPC):
			v.errorf(path+".health.check", "%s.health.check: %s backends can be checked by connect only", path, u.Scheme)
		case p.Health.Check == HealthCheckGRPC && p.Protocol != BackendHTTP2 && p.Protocol != BackendH2C:
			v.errorf(path+".health.check", "%s.health.check: grpc needs protocol: h2 or h2c", path)
		default:
			continue
		}
		return // one fault for each pool
	}
}

func (v *validator) hosts() {
	seen := map[HostName]bool{}
	for i, h := range v.config.Hosts {
		path := fmt.Sprintf("hosts[%d]", i)
		if len(h.Names) == 0 {
			v.missing(path+".names", "list the host names, such as www.example.org or *.example.org")
		}
		for j, name := range h.Names {
			if name != "" && seen[name] {
				v.errorf(fmt.Sprintf("%s.names[%d]", path, j), "hosts names %s twice", name)
			}
			seen[name] = true
		}
		v.poolFor(path+".pool", h.Pool, h.Mode)
		v.routes(path, h)
	}
	if seen[AnyHost] && v.config.UnknownHost != UnknownHostDefault {
		v.errorf("unknown_host", "unknown_host has no effect beside a host named *; remove one of them")
	} else if v.config.UnknownHost == UnknownHostDefault && !seen[AnyHost] {
		v.speaks("backends.urls", DefaultPool, ModeHTTP)
	}
}

func (v *validator) routes(path string, h Host) {
	if len(h.Routes) > 0 && h.Mode != ModeHTTP {
		v.errorf(path+".routes", "%s.routes needs mode: http; in mode %s no path is seen", path, h.Mode)
		return
	}
	unique(v, path+".routes", h.Routes, func(r Route) string { return string(r.Path) })
	for i, r := range h.Routes {
		at := fmt.Sprintf("%s.routes[%d]", path, i)
		for _, part := range []struct{ key, value string }{{"path", string(r.Path)}, {"pool", r.Pool}} {
			if part.value == "" && !v.present(at+"."+part.key) {
				v.errorf(at, "missing key %q in %s; each route needs path and pool", part.key, at)
			}
		}
		if r.Pool != "" {
			v.poolFor(at+".pool", r.Pool, ModeHTTP)
		}
	}
}

// poolFor blames path if there is no pool of that name, or none that serves
// the mode.
func (v *validator) poolFor(path, name string, mode Mode) {
	if _, ok := v.config.Pools[name]; !ok && name != DefaultPool {
		v.errorf(path, "%s: unknown pool %q%s", path, name, didYouMean(name, append(slices.Sorted(maps.Keys(v.config.Pools)), DefaultPool)))
		return
	}
	v.speaks(path, name, mode)
}

// speaks blames path if the pool's backends are not spoken to as the mode does.
func (v *validator) speaks(path, name string, mode Mode) {
	p, _ := v.config.PoolByName(name)
	for _, u := range p.URLs {
		switch {
		case u.URL == nil:
		case mode == ModeHTTP && !u.HTTP():
			v.errorf(path, "%s: the pool %q has %s backends; mode http needs http or https backends", path, name, u.Scheme)
		case mode == ModeTCP && u.HTTP():
			v.errorf(path, "%s: the pool %q has %s backends; mode tcp needs tcp or tls backends", path, name, u.Scheme)
		case mode == ModePassthrough && (u.HTTP() || u.Secure()):
			v.errorf(path, "%s: the pool %q has %s backends; mode passthrough needs tcp backends, as TLS is theirs", path, name, u.Scheme)
		default:
			continue
		}
		return
	}
}
