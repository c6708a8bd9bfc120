package service

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/provider"
)

// live is what the live page shows, once a second: counters since the start, from
// which it takes the rates.
type live struct {
	Time         float64                `json:"time"` // seconds, of this machine's clock
	Draining     bool                   `json:"draining"`
	Demo         bool                   `json:"demo"` // there is a load to be started
	DemoLoading  bool                   `json:"demo_loading"`
	Listening    []string               `json:"listening"`
	Connections  int                    `json:"connections"`
	Handshakes   map[string]uint64      `json:"handshakes"` // by group
	Failed       uint64                 `json:"failed_handshakes"`
	Shed         uint64                 `json:"shed_connections"`
	Latency      []provider.Bucket      `json:"latency"` // of handshakes, in seconds
	ByGPU        uint64                 `json:"by_gpu"`  // key exchanges
	ByCPU        uint64                 `json:"by_cpu"`
	Fallbacks    map[string]uint64      `json:"fallbacks"` // what the CPU did in a GPU's place, by reason
	GPUs         []provider.DeviceStats `json:"gpus"`
	Health       []string               `json:"out_of_order"`
	Certificates []liveCertificate      `json:"certificates"` // those that expire first
}

type liveCertificate struct {
	Names    string `json:"names"`
	NotAfter string `json:"not_after"`
}

// Bounds of the live page's lists, and of the metrics' of certificates.
const (
	maxShown = 20
	maxNames = 4 // of a certificate
)

// live implements admin.Options.
func (s *Service) live() any {
	status := s.status().(Status)
	l := live{
		Time: float64(time.Now().UnixMilli()) / 1e3, Draining: status.Draining, Demo: s.current().DemoLoad != nil, Listening: status.Listening, Connections: status.Connections,
		Handshakes: status.Handshakes, Failed: status.Failed, Shed: status.Shed, Latency: s.operation.metrics.HandshakeLatency().Buckets(1e-9),
		GPUs: []provider.DeviceStats{}, Health: append([]string{}, status.Health...), Certificates: s.expiring(),
	}
	if l.Demo {
		l.DemoLoading = s.current().DemoLoading()
	}
	for _, o := range status.KeyExchanges.Operations {
		switch o.Operation {
		case "server-exchange", "client-finish":
			l.ByGPU += o.ByGPU
			l.ByCPU += o.Served - min(o.ByGPU, o.Served)
		}
	}
	if g := status.KeyExchanges.GPU; g != nil {
		l.Fallbacks = map[string]uint64{"queue full": g.Full, "no GPU open": g.Unavailable, "late": g.Late, "GPU failed": g.Faulted}
		l.GPUs = append(l.GPUs, g.Devices...)
	}
	l.Health = l.Health[:min(len(l.Health), maxShown)]
	return l
}

// soonest returns the certificates that expire first, in that order.
func soonest(all []certificates.Info) (first []certificates.Info) {
	byExpiry := func(a, b certificates.Info) int { return a.NotAfter.Compare(b.NotAfter) }
	for _, c := range all {
		if len(first) == maxShown && byExpiry(c, first[maxShown-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, c, byExpiry)
		first = slices.Insert(first, at, c)[:min(len(first)+1, maxShown)]
	}
	return first
}

// expiring describes the certificates that expire first.
func (s *Service) expiring() []liveCertificate {
	all := []liveCertificate{}
	for _, c := range soonest(s.current().store.Certificates()) {
		names := strings.Join(c.Names[:min(len(c.Names), maxNames)], ", ")
		if more := len(c.Names) - maxNames; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, liveCertificate{names, c.NotAfter.Format(time.DateOnly)})
	}
	return all
}
