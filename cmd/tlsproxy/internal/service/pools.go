package service

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// loadPools reads what the pools' policies towards their backends name.
func (p *Plan) loadPools() config.Errors {
	var errs config.Errors
	p.pools = map[string]*tls.Config{}
	for _, name := range p.Config.PoolNames() {
		pool, _ := p.Config.PoolByName(name)
		p.files.Note(pool.CA)
		p.files.Note(pool.TLS.Cert)
		p.files.Note(pool.TLS.Key)
		policy, err := backendPolicy(p.Config, config.PoolPath(name), &pool)
		if err != nil {
			errs = append(errs, err)
		}
		p.pools[name] = policy
	}
	return errs
}

// backendPolicy is how TLS is spoken with the backends of the pool at a place of
// the configuration.
func backendPolicy(c *config.Config, path string, pool *config.Pool) (*tls.Config, *config.Error) {
	ids := pool.TLS.CurveIDs()
	policy := &tls.Config{ServerName: pool.TLS.ServerName, MinVersion: uint16(pool.TLS.MinVersion), CurvePreferences: ids}
	if slices.ContainsFunc(pool.URLs, config.URL.Secure) {
		if err := checkGroups(ids); err != nil {
			return nil, c.Errorf(path+".tls.groups", "%v", err)
		}
	}
	if pool.CA != "" {
		var err error
		if policy.RootCAs, err = certificates.LoadPool(pool.CA); err != nil {
			return nil, c.Errorf(path+".ca", "%v", err)
		}
	}
	if pool.TLS.Cert != "" {
		cert, err := certificates.Load(pool.TLS.Cert, pool.TLS.Key)
		if err != nil {
			return nil, c.Errorf(path+".tls.cert", "%v", err)
		}
		policy.Certificates = []tls.Certificate{*cert}
	}
	return policy, nil
}

// openPools starts the pools of a configuration, but for those that it has in
// common with the Plan before, which are running: with them their connections and
// what is known of their backends are taken over.
func (p *Plan) openPools(logger *slog.Logger, before *Plan, running map[string]*backend.Pool) (map[string]*backend.Pool, error) {
	pools := map[string]*backend.Pool{}
	for _, name := range p.Config.PoolNames() {
		if p.samePool(before, name) {
			pools[name] = running[name]
			continue
		}
		pool, err := backend.New(p.poolOptions(name, logger))
		if err != nil {
			closeOthers(pools, running)
			return nil, fmt.Errorf("pool %s: %w", name, err)
		}
		pools[name] = pool
	}
	return pools, nil
}

// samePool reports whether a pool is the same in both.
func (p *Plan) samePool(before *Plan, name string) bool {
	if before == nil {
		return false
	}
	now, _ := p.Config.PoolByName(name)
	then, ok := before.Config.PoolByName(name)
	a, b := p.pools[name], before.pools[name]
	return ok && reflect.DeepEqual(now, then) && p.Config.Timeouts == before.Config.Timeouts &&
		a.RootCAs.Equal(b.RootCAs) && slices.EqualFunc(a.Certificates, b.Certificates, sameCertificate)
}

func sameCertificate(a, b tls.Certificate) bool {
	return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
}

// closeOthers closes the pools that are not among those to keep.
func closeOthers(pools, keep map[string]*backend.Pool) {
	for name, pool := range pools {
		if keep[name] != pool {
			pool.Close()
		}
	}
}

func closePools(pools map[string]*backend.Pool) {
	for _, pool := range pools {
		pool.Close()
	}
}

// poolOptions translates the configuration of a pool.
func (p *Plan) poolOptions(name string, logger *slog.Logger) backend.Options {
	c := p.Config
	pool, _ := c.PoolByName(name)
	o := backend.Options{
		Name:               name,
		Protocol:           backendProtocols[pool.Protocol],
		Balance:            balances[pool.Balance],
		Proxy:              proxyVersions[pool.ProxyProtocol],
		TLS:                p.pools[name],
		Health:             health(pool.Health),
		Retries:            pool.Retries,
		EjectAfter:         pool.EjectAfter,
		EjectFor:           time.Duration(pool.EjectFor),
		MaxIdleConnections: pool.MaxIdleConnections,
		Resolve:            time.Duration(pool.Resolve),
		ConnectTimeout:     time.Duration(c.Timeouts.BackendConnect),
		WriteTimeout:       time.Duration(c.Timeouts.BackendWrite),
		ResponseTimeout:    time.Duration(c.Timeouts.BackendResponse),
		ReadTimeout:        time.Duration(c.Timeouts.BackendRead),
		IdleTimeout:        time.Duration(c.Timeouts.BackendIdle),
		MaxHeaderBytes:     int64(c.Limits.HeaderBytes),
		Logger:             logger,
	}
	switch pool.HashKey.From {
	case config.HashHeader:
		o.Key.Header = pool.HashKey.Name
	case config.HashCookie:
		o.Key.Cookie = pool.HashKey.Name
	}
	if pool.TLS.ClassicalRetry {
		o.ClassicalRetry = slices.DeleteFunc(pool.TLS.CurveIDs(), groups.PostQuantum)
	}
	for _, u := range pool.URLs {
		o.URLs = append(o.URLs, u.URL)
	}
	return o
}

var backendProtocols = map[config.BackendProtocol]backend.Protocol{
	config.BackendHTTP1: backend.HTTP1,
	config.BackendHTTP2: backend.HTTP2,
	config.BackendH2C:   backend.H2C,
	config.BackendAuto:  backend.Auto,
}

var proxyVersions = map[config.SendProxy]proxyprotocol.Version{
	config.SendProxyNone: proxyprotocol.None,
	config.SendProxyV1:   proxyprotocol.V1,
	config.SendProxyV2:   proxyprotocol.V2,
}

var balances = map[config.Balance]backend.Balance{
	config.BalanceRoundRobin:       backend.RoundRobin,
	config.BalanceLeastConnections: backend.LeastConnections,
	config.BalanceHash:             backend.Hash,
}

var checks = map[config.HealthCheck]backend.Check{
	config.HealthCheckNone:    backend.NoCheck,
	config.HealthCheckConnect: backend.CheckConnect,
	config.HealthCheckHTTP:    backend.CheckHTTP,
	config.HealthCheckGRPC:    backend.CheckGRPC,
}

// health translates the configuration of health checks.
func health(h config.Health) backend.Health {
	return backend.Health{
		Check:          checks[h.Check],
		Path:           h.Path,
		Host:           h.Host,
		Interval:       time.Duration(h.Interval),
		Timeout:        time.Duration(h.Timeout),
		HealthyAfter:   h.HealthyAfter,
		UnhealthyAfter: h.UnhealthyAfter,
	}
}

// unusedPools warns of pools that no host leads to.
func unusedPools(c *config.Config) []string {
	used := map[string]bool{}
	for _, h := range c.Hosts {
		used[h.Pool] = true
		for _, r := range h.Routes {
			used[r.Pool] = true
		}
	}
	var all []string
	used[config.DefaultPool] = c.DefaultPoolUsed()
	for _, name := range c.PoolNames() {
		if !used[name] {
			all = append(all, fmt.Sprintf("%s: no host leads to this pool", config.PoolPath(name)))
		}
	}
	return all
}
