package proxy

import (
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// books count connections, in all and by who they are from and for. The Server's lock
// guards them. What they hold is bounded by the connections that are open, and by
// limits.sources.
type books struct {
	handshaking int
	sources     map[netip.Addr]counts // with a connection
	hosts       map[string]int        // connections, by routing.Host.Name
	rates       *simplelru.LRU[netip.Addr, *rate.Limiter]
}

// counts are those of one source.
type counts struct{ connections, handshakes int }

// newBooks are empty, with room for the rates of so many sources.
func newBooks(sources int) books {
	rates, err := simplelru.NewLRU[netip.Addr, *rate.Limiter](max(sources, 1), nil)
	if err != nil { // never for a positive size
		panic("proxy: " + err.Error())
	}
	return books{sources: map[netip.Addr]counts{}, hosts: map[string]int{}, rates: rates}
}

// excess is a limit that is reached: its key in the configuration, and its value.
// The zero excess is none.
type excess struct {
	limit string
	value int
}

// takeSource counts a connection in its handshake for its source, or names the limit
// that is reached.
func (b *books) takeSource(source netip.Addr, limits *config.Limits) excess {
	n := b.sources[source]
	switch {
	case n.connections >= limits.ConnectionsPerSource:
		return excess{"limits.connections_per_source", limits.ConnectionsPerSource}
	case n.handshakes >= limits.HandshakesPerSource:
		return excess{"limits.handshakes_per_source", limits.HandshakesPerSource}
	case limits.HandshakeRatePerSource > 0 && !b.rate(source, limits).Allow():
		return excess{"limits.handshake_rate_per_source", limits.HandshakeRatePerSource}
	}
	b.sources[source] = counts{n.connections + 1, n.handshakes + 1}
	return excess{}
}

// rate returns a source's token bucket, as the limits have it by now.
func (b *books) rate(source netip.Addr, limits *config.Limits) *rate.Limiter {
	each, burst := rate.Limit(limits.HandshakeRatePerSource), limits.HandshakeBurstPerSource
	bucket, ok := b.rates.Get(source)
	if !ok {
		bucket = rate.NewLimiter(each, burst)
		b.rates.Add(source, bucket)
	}
	if bucket.Limit() != each || bucket.Burst() != burst {
		now := time.Now()
		bucket.SetLimitAt(now, each)
		bucket.SetBurstAt(now, burst)
	}
	return bucket
}

// leaveSource takes connections and handshakes of a source off.
func (b *books) leaveSource(source netip.Addr, connections, handshakes int) {
	n := b.sources[source]
	n.connections -= connections
	n.handshakes -= handshakes
	if n == (counts{}) {
		delete(b.sources, source)
		return
	}
	b.sources[source] = n
}

// takeHost counts a connection for the host of a name, or names the limit that is
// reached, which 0 is not.
func (b *books) takeHost(name string, most int) excess {
	if n := b.hosts[name]; most > 0 && n >= most {
		return excess{"hosts.limits.connections", most}
	}
	b.hosts[name]++
	return excess{}
}

func (b *books) leaveHost(name string) {
	if b.hosts[name]--; b.hosts[name] == 0 {
		delete(b.hosts, name)
	}
}

// translated is where the IPv4 Internet is to a server that has IPv6 alone (RFC 6052,
// section 2.1; RFC 7755): the last 32 bits are the client's address.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// sourceOf is a client's address without its port; of IPv6 only the first 64
// bits, as one client can have all the others, unless they stand for IPv4. It is the
// zero Addr for addresses of no known form.
func sourceOf(a net.Addr) netip.Addr {
	a = withoutName(a)
	var at netip.AddrPort
	if tcp, ok := a.(*net.TCPAddr); ok {
		at = tcp.AddrPort()
	} else {
		at, _ = netip.ParseAddrPort(a.String())
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case translated.Contains(ip):
		all := ip.As16()
		return netip.AddrFrom4([4]byte(all[12:]))
	case ip.Is6():
		network, _ := ip.Prefix(64)
		return network.Addr()
	}
	return ip
}
