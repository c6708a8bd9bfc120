package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// maxAddresses bounds how many addresses of one name are used.
const maxAddresses = 64

// lookupTimeout bounds one lookup.
const lookupTimeout = 10 * time.Second

// resolve looks the pool's names up again and again. A name that cannot be
// looked up keeps the backends that it had.
func (p *Pool) resolve() {
	failing := map[string]bool{}
	for {
		p.resolveOnce(failing)
		select {
		case <-time.After(p.options.Resolve):
		case <-p.ctx.Done():
			return
		}
	}
}

// resolveOnce brings the set up to date. It logs when lookups of a name begin
// to fail and when they work again.
func (p *Pool) resolveOnce(failing map[string]bool) {
	old := *p.set.Load()
	var set []*backend
	for _, u := range p.options.URLs {
		known := slices.Collect(func(yield func(*backend) bool) {
			for _, b := range old {
				if b.url == u && !yield(b) {
					return
				}
			}
		})
		addresses, err := p.addresses(u)
		if p.ctx.Err() != nil {
			return
		}
		if (err != nil) != failing[u.Host] {
			failing[u.Host] = err != nil
			p.logLookup(u, err)
		}
		set = append(set, p.update(u, known, addresses)...)
	}
	p.set.Store(&set)
	for _, b := range old {
		if !slices.Contains(set, b) {
			b.retire()
			p.options.Logger.Info("backend is gone from DNS", "pool", p.options.Name, "backend", b.name)
		}
	}
}

func (p *Pool) logLookup(u *url.URL, err error) {
	if err != nil {
		p.options.Logger.Warn("looking a backend up failed; keeping what is known", "pool", p.options.Name, "backend", u.Host, "err", err)
		return
	}
	p.options.Logger.Info("looking a backend up works again", "pool", p.options.Name, "backend", u.Host)
}

// update returns the backends for a URL: those that are known where they still
// have their address, new ones for new addresses, and all that are known if
// there are no addresses.
func (p *Pool) update(u *url.URL, known []*backend, addresses []string) []*backend {
	if len(addresses) == 0 {
		return known
	}
	var set []*backend
	for _, address := range addresses {
		i := slices.IndexFunc(known, func(b *backend) bool { return b.address == address })
		if i >= 0 {
			set = append(set, known[i])
			continue
		}
		set = append(set, p.start(u, address))
	}
	return set
}

// addresses looks a URL's host up. The result is sorted; it is empty for a host
// that is an address itself and for a Unix socket.
func (p *Pool) addresses(u *url.URL) ([]string, error) {
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Host == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, lookupTimeout)
	defer cancel()
	found, err := p.options.Lookup(ctx, "ip", u.Hostname())
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("the name has no address")
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	if len(found) > maxAddresses {
		return nil, fmt.Errorf("the name has %d addresses; the most is %d", len(found), maxAddresses)
	}
	_, port, err := net.SplitHostPort(hostPort(u))
	if err != nil {
		return nil, err
	}
	all := make([]string, len(found))
	for i, a := range found {
		all[i] = net.JoinHostPort(a.String(), port)
	}
	return all, nil
}
