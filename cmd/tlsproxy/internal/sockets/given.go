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
type Given struct{ listeners map[string][]Listener }

// FromSystemd takes the sockets that systemd has opened for this process
// (sd_listen_fds(3)). It can be called once.
func FromSystemd() (*Given, error) {
	files := activation.Files(true)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = systemdPrefix + f.Name()
	}
	g, err := newGiven(names, files)
	if err != nil {
		return nil, fmt.Errorf("sockets: of those that systemd has opened, %w; ListenStream= makes such as can be used", err)
	}
	return g, nil
}

// Inherit takes sockets that the process before has left, by their names: their
// descriptors are those from first on. Unix sockets are not owned yet.
func Inherit(names []string, first int) (*Given, error) {
	files := make([]*os.File, len(names))
	for i, name := range names {
		files[i] = os.NewFile(uintptr(first+i), name)
	}
	return newGiven(names, files)
}

// newGiven takes sockets by their names, and closes the files.
func newGiven(names []string, files []*os.File) (*Given, error) {
	g := &Given{listeners: map[string][]Listener{}}
	for i, f := range files {
		if err := g.add(names[i], f); err != nil {
			closeFiles(files[i+1:])
			g.CloseRest()
			return nil, fmt.Errorf("%q cannot be listened on: %w", f.Name(), err)
		}
	}
	return g, nil
}

// add takes a socket's descriptor, and closes the file.
func (g *Given) add(name string, f *os.File) error {
	ln, err := net.FileListener(f)
	f.Close()
	if err == nil {
		g.listeners[name] = append(g.listeners[name], Listener{ln, name})
	}
	return err
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// take hands out the sockets of a name.
func (g *Given) take(name string) []Listener {
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
