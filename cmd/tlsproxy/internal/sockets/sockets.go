package sockets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Spec says what to open. One of TCP, Unix and Systemd is set.
type Spec struct {
	For string // sets the Name apart; "": clients

	TCP       string // host:port
	ReusePort bool   // other processes may listen there too, and share the connections (SO_REUSEPORT)

	Unix string      // the path of a socket
	Mode fs.FileMode // of its file

	Systemd string // the name of sockets that systemd has opened
}

// Name is by which a process that takes over finds the sockets again.
func (s Spec) Name() string {
	if s.For == "" {
		return s.place()
	}
	return s.For + " " + s.place()
}

func (s Spec) place() string {
	switch {
	case s.Unix != "":
		return unixPrefix + s.Unix
	case s.Systemd != "":
		return systemdPrefix + s.Systemd
	}
	return s.TCP
}

const (
	unixPrefix    = "unix:"
	systemdPrefix = "systemd:"
)

// Listener is what a Spec has led to.
type Listener struct {
	net.Listener
	Name string // of the Spec
}

// File returns a copy of the descriptor, for another process. Close it.
func (l Listener) File() (*os.File, error) {
	of, ok := l.Listener.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("sockets: %s: %w", l.Name, errors.ErrUnsupported)
	}
	return of.File()
}

// Own says whether the file of a Unix socket, unless it is systemd's, goes when l
// is closed: not when another process has it too.
func (l Listener) Own(own bool) {
	if unix, ok := l.Listener.(*net.UnixListener); ok && strings.HasPrefix(l.Name, unixPrefix) {
		unix.SetUnlinkOnClose(own)
	}
}

// Open returns what listens for a Spec: the sockets that the process was given
// by that name, of which there can be several, else one that it opens. The
// caller closes them.
func (s Spec) Open(given *Given) ([]Listener, error) {
	if taken := given.take(s.Name()); len(taken) > 0 {
		return taken, s.adjust(taken)
	}
	var ln net.Listener
	var err error
	switch {
	case s.Systemd != "":
		return nil, given.lacks(s.Systemd)
	case s.Unix != "":
		ln, err = listenUnix(s.Unix, s.Mode)
	case s.ReusePort:
		ln, err = listenTCP(s.TCP, setReusePort)
	default:
		ln, err = listenTCP(s.TCP, noOption)
	}
	if err != nil {
		return nil, err
	}
	return []Listener{{ln, s.Name()}}, nil
}

// adjust gives sockets that were opened before what a Spec says of their files.
func (s Spec) adjust(taken []Listener) error {
	if s.Unix == "" {
		return nil
	}
	if err := os.Chmod(s.Unix, s.Mode); err != nil {
		for _, ln := range taken {
			ln.Close()
		}
		return err
	}
	return nil
}

func noOption(int) error { return nil }

// listenConfig is one that sets options of the socket before its address.
func listenConfig(set func(fd int) error) net.ListenConfig {
	return net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var unset error
		if err := raw.Control(func(fd uintptr) { unset = set(int(fd)) }); err != nil {
			return err
		}
		return unset
	}}
}

// listenPlain is net.Listen with an option.
func listenPlain(address string, option func(fd int) error) (net.Listener, error) {
	c := listenConfig(option)
	return c.Listen(context.Background(), "tcp", address)
}

// listenUnix listens on a Unix socket. A file that is left of one that nobody
// listens on is replaced.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	c := listenConfig(func(fd int) error { return restrict(fd, mode) })
	ln, err := c.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil { // what the umask has taken away
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// staleTimeout bounds how long a socket is waited for that may be alive.
const staleTimeout = time.Second

// removeStale removes the file of a Unix socket that is refused.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket; remove it, or listen elsewhere", path)
	}
	c, err := net.DialTimeout("unix", path, staleTimeout)
	if err == nil {
		c.Close()
	}
	if stale, err := isStale(path, err); !stale {
		return err
	}
	return os.Remove(path)
}

// isStale says what it means for the socket at a path that connecting to it gave err:
// that nobody listens there, or why its file is not to be removed. It is not stale, and
// no error, if it is gone by now.
func isStale(path string, err error) (stale bool, _ error) {
	var late net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, fs.ErrPermission):
		return false, fmt.Errorf("whether somebody listens on %s cannot be found out, as this process may not connect to it (%w); remove it if nobody does, or listen elsewhere", path, err)
	case err == nil, errors.As(err, &late) && late.Timeout(): // one that has no room for another connection is alive
		return false, fmt.Errorf("somebody listens on %s already; end that process, or listen elsewhere", path)
	}
	return false, fmt.Errorf("%s is there and is no socket to listen on (%w); remove it, or listen elsewhere", path, err)
}
