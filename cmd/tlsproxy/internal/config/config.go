package config

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// Config is a whole configuration. The tag yaml names a key; min and max bound
// a number, a size, a duration, or the length of a list or of a mapping of free
// names; empty lets a value be the empty string; reload:"restart" marks what a
// running proxy does not take up when it reads its configuration again.
type Config struct {
	Listen       []Listener      `yaml:"listen" max:"64" reload:"restart"`
	Certificates []Certificate   `yaml:"certificates" max:"100000"`
	ACME         ACME            `yaml:"acme"`
	TLS          TLS             `yaml:"tls"`
	Backends     Pool            `yaml:"backends"` // the pool DefaultPool
	Pools        map[string]Pool `yaml:"pools" max:"1024"`
	Hosts        []Host          `yaml:"hosts" max:"100000"`
	UnknownHost  UnknownHost     `yaml:"unknown_host"`
	Headers      Headers         `yaml:"headers"`
	Reload       Reload          `yaml:"reload"`
	Timeouts     Timeouts        `yaml:"timeouts"`
	Limits       Limits          `yaml:"limits"`
	Log          Log             `yaml:"log"`
	Admin        Admin           `yaml:"admin" reload:"restart"`
	Tracing      Tracing         `yaml:"tracing" reload:"restart"`
	Provider     Provider        `yaml:"provider" reload:"restart"`

	file      string
	positions map[string]position
}

// Certificate names the PEM files of one certificate chain and of its key, or a
// folder of such files. Relative names are relative to the configuration file's
// folder.
type Certificate struct {
	Cert   string `yaml:"cert,omitempty"`
	Key    string `yaml:"key,omitempty"`
	Folder string `yaml:"folder,omitempty"`
}

// ACME says for which names certificates are had from an authority by ACME.
type ACME struct {
	Names       []HostName `yaml:"names" max:"10000"` // none: for none
	AgreeTerms  bool       `yaml:"agree_terms" reload:"restart"`
	Email       string     `yaml:"email" empty:"ok" reload:"restart"`
	Directory   string     `yaml:"directory" reload:"restart"`
	DirectoryCA string     `yaml:"directory_ca" empty:"ok" reload:"restart"`
	Storage     string     `yaml:"storage" reload:"restart"`
}

// Reload says when a running proxy looks for changes; it also does at SIGHUP.
type Reload struct {
	Poll          Duration `yaml:"poll" min:"0" max:"24h"`  // 0: never
	Every         Duration `yaml:"every" min:"0" max:"24h"` // 0: never
	Configuration bool     `yaml:"configuration"`
}

// TLS is the policy towards clients.
type TLS struct {
	Groups        []Group    `yaml:"groups" max:"32"`
	MinVersion    Version    `yaml:"min_version"`
	ALPN          []Protocol `yaml:"alpn" max:"2"`
	RequireHybrid bool       `yaml:"require_hybrid"`
	ClientAuth    ClientAuth `yaml:"client_auth"`
	Tickets       Tickets    `yaml:"tickets"`
}

// ClientAuth says which certificates clients need.
type ClientAuth struct {
	Mode  ClientAuthMode `yaml:"mode"`
	CA    string         `yaml:"ca" empty:"ok"`
	Allow []ClientName   `yaml:"allow" max:"1000"` // none: all that ca vouches for
}

// Tickets says how clients resume sessions.
type Tickets struct {
	Enabled  bool     `yaml:"enabled"`
	Rotate   Duration `yaml:"rotate" min:"1m" max:"168h"`
	Lifetime Duration `yaml:"lifetime" min:"1m" max:"168h"`
	Secrets  string   `yaml:"secrets" empty:"ok"`
	Store    Store    `yaml:"store" reload:"restart"`
}

// Store is a server of Redis's protocol that several proxies use.
type Store struct {
	URL      StoreURL `yaml:"url" empty:"ok"` // "": none
	Username string   `yaml:"username" empty:"ok"`
	Password string   `yaml:"password_file" empty:"ok"`
	CA       string   `yaml:"ca" empty:"ok"`
	Prefix   string   `yaml:"prefix" empty:"ok"`
}

// DefaultPool is the name of the pool that the key backends describes.
const DefaultPool = "default"

// Pool is a set of backends that answer alike.
type Pool struct {
	URLs               []URL           `yaml:"urls" max:"1024"`
	Protocol           BackendProtocol `yaml:"protocol"`
	Balance            Balance         `yaml:"balance"`
	HashKey            HashKey         `yaml:"hash_key"`
	ProxyProtocol      SendProxy       `yaml:"proxy_protocol"`
	CA                 string          `yaml:"ca" empty:"ok"`
	TLS                BackendTLS      `yaml:"tls"`
	Health             Health          `yaml:"health"`
	Retries            int             `yaml:"retries" min:"0" max:"10"`
	EjectAfter         int             `yaml:"eject_after" min:"1" max:"1000"`
	EjectFor           Duration        `yaml:"eject_for" min:"100ms" max:"1h"`
	MaxIdleConnections int             `yaml:"max_idle_connections" min:"0" max:"65536"`
	Resolve            Duration        `yaml:"resolve" min:"0" max:"24h"` // 0: when connecting
}

// BackendTLS is the policy towards the https and tls backends of a pool.
type BackendTLS struct {
	Cert           string  `yaml:"cert" empty:"ok"`
	Key            string  `yaml:"key" empty:"ok"`
	ServerName     string  `yaml:"server_name" empty:"ok"`
	Groups         []Group `yaml:"groups" max:"32"`
	MinVersion     Version `yaml:"min_version"`
	ClassicalRetry bool    `yaml:"classical_retry"`
}

// Health says how backends are checked between requests.
type Health struct {
	Check          HealthCheck `yaml:"check"`
	Path           string      `yaml:"path"`
	Host           string      `yaml:"host" empty:"ok"`
	Interval       Duration    `yaml:"interval" min:"100ms" max:"1h"`
	Timeout        Duration    `yaml:"timeout" min:"10ms" max:"5m"`
	HealthyAfter   int         `yaml:"healthy_after" min:"1" max:"1000"`
	UnhealthyAfter int         `yaml:"unhealthy_after" min:"1" max:"1000"`
}

// Host is what happens to connections, and over them to requests, for some
// server names.
type Host struct {
	Names  []HostName `yaml:"names" max:"1000"`
	Mode   Mode       `yaml:"mode"`
	Pool   string     `yaml:"pool"`
	Routes []Route    `yaml:"routes" max:"1000"`

	Certificates []Certificate `yaml:"certificates,omitempty" max:"1000"` // none: those of the whole proxy
	TLS          HostTLS       `yaml:"tls"`
	Limits       HostLimits    `yaml:"limits"`
}

// HostLimits bound what a host's clients can make the proxy hold.
type HostLimits struct {
	Connections int `yaml:"connections" min:"0" max:"1000000"` // 0: no bound of its own
}

// HostTLS is where a host's policy differs from the key tls. What is zero does
// not.
type HostTLS struct {
	Groups        []Group        `yaml:"groups,omitempty" max:"32"`
	MinVersion    Version        `yaml:"min_version,omitempty"`
	ALPN          []ProtocolName `yaml:"alpn,omitempty" max:"16"`
	RequireHybrid Choice         `yaml:"require_hybrid,omitempty"`
	ClientAuth    ClientAuth     `yaml:"client_auth,omitempty"`
}

// Route sends the requests beneath a path to a pool.
type Route struct {
	Path RoutePath `yaml:"path"`
	Pool string    `yaml:"pool"`
}

// Headers says what backends are told in headers of the proxy's own.
type Headers struct {
	Forwarded  bool `yaml:"forwarded"`
	ClientCert bool `yaml:"client_cert"`
}

// Timeouts bound how long the proxy waits. Where 0 is allowed it means no bound.
type Timeouts struct {
	Handshake       Duration `yaml:"handshake" min:"10ms" max:"5m"`
	ReadHeader      Duration `yaml:"read_header" min:"10ms" max:"1h" reload:"restart"`
	ReadBody        Duration `yaml:"read_body" min:"0" max:"24h"`
	Write           Duration `yaml:"write" min:"0" max:"24h"`
	Idle            Duration `yaml:"idle" min:"10ms" max:"24h" reload:"restart"`
	Tunnel          Duration `yaml:"tunnel" min:"0" max:"720h"`
	Lifetime        Duration `yaml:"lifetime" min:"0" max:"8760h"`
	BackendConnect  Duration `yaml:"backend_connect" min:"10ms" max:"5m"`
	BackendWrite    Duration `yaml:"backend_write" min:"0" max:"24h"`
	BackendResponse Duration `yaml:"backend_response" min:"0" max:"24h"`
	BackendRead     Duration `yaml:"backend_read" min:"0" max:"24h"`
	BackendIdle     Duration `yaml:"backend_idle" min:"10ms" max:"24h"`
	Drain           Duration `yaml:"drain" min:"0" max:"24h"`
}

// Limits bound what clients can make the proxy hold.
type Limits struct {
	Connections             int      `yaml:"connections" min:"1" max:"1000000"`
	ConnectionsPerSource    int      `yaml:"connections_per_source" min:"1" max:"1000000"`
	Handshakes              int      `yaml:"handshakes" min:"1" max:"1000000"`
	HandshakesPerSource     int      `yaml:"handshakes_per_source" min:"1" max:"1000000"`
	HandshakeRatePerSource  int      `yaml:"handshake_rate_per_source" min:"0" max:"1000000"` // a second; 0: no bound
	HandshakeBurstPerSource int      `yaml:"handshake_burst_per_source" min:"1" max:"1000000"`
	Sources                 int      `yaml:"sources" min:"1" max:"10000000" reload:"restart"`
	KeyExchanges            int      `yaml:"key_exchanges" min:"0" max:"1000000"` // 0: by processors and GPUs
	KeyExchangeWait         Duration `yaml:"key_exchange_wait" min:"1ms" max:"1m"`
	Requests                int      `yaml:"requests" min:"1" max:"1000000"`
	Streams                 int      `yaml:"streams" min:"1" max:"10000" reload:"restart"`
	URLBytes                Size     `yaml:"url_bytes" min:"128" max:"16MiB"`
	HeaderBytes             Size     `yaml:"header_bytes" min:"1KiB" max:"16MiB" reload:"restart"`
	ParsedCertificates      int      `yaml:"parsed_certificates" min:"1" max:"1000000" reload:"restart"`
}

// Log says what is logged and how.
type Log struct {
	Format            Format `yaml:"format" reload:"restart"`
	Level             Level  `yaml:"level"`
	Requests          bool   `yaml:"requests"`
	FailuresPerSecond int    `yaml:"failures_per_second" min:"1" max:"100000" reload:"restart"`
}

// Admin configures the listener for those who run the proxy.
type Admin struct {
	Listen []AdminAddress `yaml:"listen" max:"8"` // none: there is no such listener
}

// Provider configures the key exchange provider.
type Provider struct {
	KeyPool int    `yaml:"key_pool" min:"0" max:"65536"`
	Engine  Engine `yaml:"engine"`
	GPU     GPU    `yaml:"gpu"`
}

// GPU configures the use of GPUs; provider.GPU says more.
type GPU struct {
	Library     string   `yaml:"library" empty:"ok"`
	Devices     []int    `yaml:"devices" max:"64"` // none: all
	Workers     int      `yaml:"workers" min:"1" max:"16"`
	Capacity    int      `yaml:"capacity" min:"1" max:"65536"`
	MaxWait     Duration `yaml:"max_wait" min:"1ms" max:"1m"`
	Hang        Duration `yaml:"hang" min:"10ms" max:"5m"`
	OpenTimeout Duration `yaml:"open_timeout" min:"1s" max:"10m"`
	CheckEvery  int      `yaml:"check_every" min:"0" max:"1000000000"` // 0: never
	Sign        bool     `yaml:"sign"`
}

// Default returns the configuration that a file with only the required keys
// (certificates and backends.urls) leads to.
func Default() *Config {
	return &Config{
		Listen: []Listener{ListenOn("localhost:8443")},
		ACME:   ACME{Directory: "https://acme-v02.api.letsencrypt.org/directory", Storage: "acme"},
		TLS: TLS{
			Groups:     defaultGroups(),
			MinVersion: versionTLS12,
			ALPN:       []Protocol{ProtocolHTTP2, ProtocolHTTP1},
			ClientAuth: ClientAuth{Mode: ClientAuthNone},
			Tickets:    Tickets{Enabled: true, Rotate: Duration(12 * time.Hour), Lifetime: Duration(24 * time.Hour), Store: Store{Prefix: "tlsproxy:tickets:"}},
		},
		Backends:    defaultPool(),
		Pools:       map[string]Pool{},
		UnknownHost: UnknownHostDefault,
		Reload:      Reload{Poll: Duration(10 * time.Second), Every: Duration(time.Hour)},
		Timeouts: Timeouts{
			Handshake:       Duration(10 * time.Second),
			ReadHeader:      Duration(10 * time.Second),
			ReadBody:        Duration(time.Minute),
			Write:           Duration(time.Minute),
			Idle:            Duration(2 * time.Minute),
			Tunnel:          Duration(time.Hour),
			BackendConnect:  Duration(5 * time.Second),
			BackendWrite:    Duration(time.Minute),
			BackendResponse: Duration(time.Minute),
			BackendRead:     Duration(10 * time.Minute),
			BackendIdle:     Duration(90 * time.Second),
			Drain:           Duration(30 * time.Second),
		},
		Limits: Limits{
			Connections:             16384,
			ConnectionsPerSource:    4096,
			Handshakes:              4096,
			HandshakesPerSource:     256,
			HandshakeBurstPerSource: 100,
			Sources:                 65536,
			KeyExchangeWait:         Duration(time.Second),
			Requests:                8192,
			Streams:                 250,
			URLBytes:                16 << 10,
			HeaderBytes:             64 << 10,
			ParsedCertificates:      defaultParsedCertificates,
		},
		Log: Log{
			Format:            FormatText,
			Level:             LevelInfo,
			FailuresPerSecond: 10,
		},
		Tracing: defaultTracing(),
		Provider: Provider{
			KeyPool: defaultKeyPool,
			Engine:  EngineCPU,
			GPU: GPU{
				Workers:     2,
				Capacity:    1024,
				MaxWait:     Duration(100 * time.Millisecond),
				Hang:        Duration(10 * time.Second),
				OpenTimeout: Duration(time.Minute),
				CheckEvery:  defaultCheckEvery,
			},
		},
	}
}

func defaultPool() Pool {
	return Pool{
		Protocol: BackendHTTP1,
		Balance:  BalanceRoundRobin,
		HashKey:  HashKey{From: HashSource},

		ProxyProtocol: SendProxyNone,
		TLS: BackendTLS{
			Groups:     groupsOf(groups.OfCryptoTLS()),
			MinVersion: versionTLS12,
		},
		Health: Health{
			Check:          HealthCheckNone,
			Path:           "/",
			Interval:       Duration(10 * time.Second),
			Timeout:        Duration(2 * time.Second),
			HealthyAfter:   2,
			UnhealthyAfter: 3,
		},
		Retries:            2,
		EjectAfter:         3,
		EjectFor:           Duration(5 * time.Second),
		MaxIdleConnections: 256,
	}
}

// setDefaults makes an entry of pools start where backends does.
func (p *Pool) setDefaults() { *p = defaultPool() }

// setDefaults makes an entry of hosts a virtual host of the default pool.
func (h *Host) setDefaults() { *h = Host{Mode: ModeHTTP, Pool: DefaultPool} }

// PoolByName returns a pool; DefaultPool names that of the key backends.
func (c *Config) PoolByName(name string) (Pool, bool) {
	if name == DefaultPool {
		return c.Backends, len(c.Backends.URLs) > 0
	}
	p, ok := c.Pools[name]
	return p, ok
}

// PoolNames lists the pools, DefaultPool first if there is one, the others by
// name.
func (c *Config) PoolNames() []string {
	names := slices.Sorted(maps.Keys(c.Pools))
	if len(c.Backends.URLs) > 0 {
		names = slices.Insert(names, 0, DefaultPool)
	}
	return names
}

// PoolPath is where the file describes a pool, for Errorf.
func PoolPath(name string) string {
	if name == DefaultPool {
		return "backends"
	}
	return "pools." + name
}

// resolvePaths makes file names absolute. They start at the configuration's
// folder, not at the one that the process happens to be in.
func (c *Config) resolvePaths() {
	folder, err := filepath.Abs(filepath.Dir(c.file))
	if err != nil { // the process's own folder is gone
		folder = filepath.Dir(c.file)
	}
	resolve := func(name *string) {
		if *name != "" && !filepath.IsAbs(*name) {
			*name = filepath.Join(folder, *name)
		}
	}
	resolveAll := func(certificates []Certificate) {
		for i := range certificates {
			resolve(&certificates[i].Cert)
			resolve(&certificates[i].Key)
			resolve(&certificates[i].Folder)
		}
	}
	resolveAll(c.Certificates)
	resolve(&c.ACME.DirectoryCA)
	if len(c.ACME.Names) > 0 {
		resolve(&c.ACME.Storage)
	}
	resolve(&c.Tracing.CA)
	resolve(&c.Tracing.Headers)
	resolve(&c.TLS.ClientAuth.CA)
	resolve(&c.TLS.Tickets.Secrets)
	resolve(&c.TLS.Tickets.Store.Password)
	resolve(&c.TLS.Tickets.Store.CA)
	for i := range c.Hosts {
		resolveAll(c.Hosts[i].Certificates)
		resolve(&c.Hosts[i].TLS.ClientAuth.CA)
	}
	resolvePool := func(p *Pool) {
		resolve(&p.CA)
		resolve(&p.TLS.Cert)
		resolve(&p.TLS.Key)
	}
	resolvePool(&c.Backends)
	for name, p := range c.Pools {
		resolvePool(&p)
		c.Pools[name] = p
	}
}
