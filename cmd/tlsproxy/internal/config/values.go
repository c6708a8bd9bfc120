package config

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/provider"
)

// The provider's own defaults.
const (
	defaultKeyPool    = provider.DefaultKeyPoolSize
	defaultCheckEvery = provider.DefaultCheckEvery
)

const defaultParsedCertificates = certificates.DefaultParsed

// Address is a host and port to listen on, such as "localhost:8443"; an empty
// host stands for every address of the machine.
type Address string

// UnmarshalText checks the form; names are looked up when listening.
func (a *Address) UnmarshalText(text []byte) error {
	host, port, err := net.SplitHostPort(string(text))
	if err != nil {
		return fmt.Errorf("%q is not an address; write host:port, such as localhost:8443", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("port %q of %q is not a number from 0 to 65535", port, text)
	}
	if strings.ContainsAny(host, " /") {
		return fmt.Errorf("host %q of %q is not a host name or IP address", host, text)
	}
	*a = Address(text)
	return nil
}

// AdminAddress is an Address whose host, if it names none, is localhost.
type AdminAddress Address

// UnmarshalText checks the form.
func (a *AdminAddress) UnmarshalText(text []byte) error {
	var all Address
	if err := all.UnmarshalText(text); err != nil {
		return err
	}
	if strings.HasPrefix(string(all), ":") {
		all = "localhost" + all
	}
	*a = AdminAddress(all)
	return nil
}

// Group is a key exchange group of TLS 1.3.
type Group tls.CurveID

// UnmarshalText takes a group's name in any case.
func (g *Group) UnmarshalText(text []byte) error {
	id, ok := groups.ByName(string(text))
	if !ok {
		return fmt.Errorf("unknown group %q%s", text, didYouMean(string(text), groups.Names(groups.All())))
	}
	*g = Group(id)
	return nil
}

// MarshalText gives the group's name.
func (g Group) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

func (g Group) String() string { return groups.Name(tls.CurveID(g)) }

// CurveID returns the group as crypto/tls numbers it.
func (g Group) CurveID() tls.CurveID { return tls.CurveID(g) }

// CurveIDs returns the groups as crypto/tls wants them.
func (t *TLS) CurveIDs() []tls.CurveID { return curveIDs(t.Groups) }

// CurveIDs returns the groups as crypto/tls wants them.
func (t *HostTLS) CurveIDs() []tls.CurveID { return curveIDs(t.Groups) }

// CurveIDs returns the groups as crypto/tls wants them.
func (t *BackendTLS) CurveIDs() []tls.CurveID { return curveIDs(t.Groups) }

func curveIDs(list []Group) []tls.CurveID {
	ids := make([]tls.CurveID, len(list))
	for i, g := range list {
		ids[i] = tls.CurveID(g)
	}
	return ids
}

func defaultGroups() []Group { return groupsOf(groups.Default()) }

func groupsOf(ids []tls.CurveID) []Group {
	list := make([]Group, len(ids))
	for i, id := range ids {
		list[i] = Group(id)
	}
	return list
}

// Version is a version of TLS as crypto/tls numbers it.
type Version uint16

const versionTLS12 Version = tls.VersionTLS12

var versions = map[string]Version{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// UnmarshalText takes "1.2" or "1.3".
func (v *Version) UnmarshalText(text []byte) error {
	known, ok := versions[string(text)]
	if !ok {
		return fmt.Errorf("%q is not a version of TLS that is served; write 1.2 or 1.3", text)
	}
	*v = known
	return nil
}

// MarshalText gives "1.2" or "1.3".
func (v Version) MarshalText() ([]byte, error) {
	return []byte(strings.TrimPrefix(tls.VersionName(uint16(v)), "TLS ")), nil
}

// Protocol is an application protocol as ALPN names it.
type Protocol string

// The protocols that are served.
const (
	ProtocolHTTP2 Protocol = "h2"
	ProtocolHTTP1 Protocol = "http/1.1"
)

// UnmarshalText takes one of the protocols served.
func (p *Protocol) UnmarshalText(text []byte) error {
	return oneOf(p, "protocol", text, ProtocolHTTP2, ProtocolHTTP1)
}

// Engine is what serves key exchanges.
type Engine provider.Engine

// The engines.
const (
	EngineCPU  = Engine(provider.EngineCPU)
	EngineGPU  = Engine(provider.EngineGPU)
	EngineAuto = Engine(provider.EngineAuto)
)

// UnmarshalText takes one of the engines.
func (e *Engine) UnmarshalText(text []byte) error {
	return oneOf(e, "engine", text, EngineCPU, EngineGPU, EngineAuto)
}

// Format is how log lines are written.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// UnmarshalText takes one of the formats.
func (f *Format) UnmarshalText(text []byte) error {
	return oneOf(f, "format", text, FormatText, FormatJSON)
}

// Level is the least level that is logged.
type Level string

// The levels.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// UnmarshalText takes one of the levels.
func (l *Level) UnmarshalText(text []byte) error {
	return oneOf(l, "level", text, LevelDebug, LevelInfo, LevelWarn, LevelError)
}

// Slog returns the level as slog numbers it.
func (l Level) Slog() slog.Level {
	return map[Level]slog.Level{
		LevelDebug: slog.LevelDebug, LevelInfo: slog.LevelInfo, LevelWarn: slog.LevelWarn, LevelError: slog.LevelError,
	}[l]
}

// oneOf sets dst to text if that is among names.
func oneOf[T ~string](dst *T, kind string, text []byte, names ...T) error {
	if !slices.Contains(names, T(text)) {
		all := make([]string, len(names))
		for i, n := range names {
			all[i] = string(n)
		}
		return fmt.Errorf("unknown %s %q%s", kind, text, didYouMean(string(text), all))
	}
	*dst = T(text)
	return nil
}

// Duration is written with a unit: 500ms, 10s, 2m, 1h30m.
type Duration time.Duration

// UnmarshalText wants a unit, but for 0.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write a number with a unit, such as 500ms, 10s or 2m", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText gives the form that UnmarshalText takes.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String leaves out the units that are zero: 2m, not 2m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size is a number of bytes: 4096, 64KiB, 1MiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText takes a whole number with an optional unit.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is not a size; write a whole number of bytes, such as 4096, 64KiB or 1MiB", text)
	}
	*s = Size(n * unit)
	return nil
}

// MarshalText gives the size in the largest unit that divides it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
