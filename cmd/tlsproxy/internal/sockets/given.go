package sockets

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
)

// Given are sockets that the process was started with, by the names of their
// Specs. A nil *Given has none. Its methods are not for concurrent use.
type Given struct{ listeners map[string][]net.Listener }

// FromSystemd takes the sockets that systemd has opened for this process
// (sd_listen_fds(3)). It can be called once.
func FromSystemd() (*Given, error) {
	g := &Given{listeners: map[string][]net.Listener{}}
	files := activation.Files(true)
	for i, f := range files {
		if err := g.add(systemdPrefix+f.Name(), f); err != nil {
			closeFiles(files[i+1:])
			g.CloseRest()
			return nil, fmt.Errorf("sockets: %q of systemd's sockets: %w; ListenStream= makes those that can be used", f.Name(), err)
		}
	}
	return g, nil
}

// add takes a socket's descriptor, and closes the file.
func (g *Given) add(name string, f *os.File) error {
	ln, err := net.FileListener(f)
	f.Close()
	if err == nil {
		g.listeners[name] = append(g.listeners[name], ln)
	}
	return err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// take hands out the sockets of a name.
func (g *Given) take(name string) []net.Listener {
	if g == nil {
		return nil
	}
	taken := g.listeners[name]
	delete(g.listeners, name)
	return taken
}

// lacks is the error for a name that systemd has given no socket.
func (g *Given) lacks(name string) error {
	names := g.systemd()
	if len(names) == 0 {
		return fmt.Errorf("no socket %q: systemd has given this process none; start it by its .socket unit, whose FileDescriptorName= is the name", name)
	}
	return fmt.Errorf("no socket %q: those of systemd that are left are %s; the name is FileDescriptorName= in the .socket unit", name, strings.Join(names, ", "))
}

func (g *Given) systemd() (names []string) {
	if g == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(g.listeners)) {
		if bare, ok := strings.CutPrefix(name, systemdPrefix); ok {
			names = append(names, bare)
		}
	}
	return names
}

// CloseRest closes the sockets that nobody has taken, and returns their names.
func (g *Given) CloseRest() []string {
	if g == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(g.listeners))
	for _, name := range names {
		for _, ln := range g.take(name) {
			ln.Close()
		}
	}
	return names
}
