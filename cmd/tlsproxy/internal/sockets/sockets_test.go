package sockets

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, s Spec) Listener {
	t.Helper()
	all, err := s.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d listeners", len(all))
	}
	t.Cleanup(func() { all[0].Close() })
	return all[0]
}

// connects reports whether somebody answers at ln.
func connects(t *testing.T, ln net.Listener) {
	t.Helper()
	c, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted.Close()
}

// TestUnix: the file has the mode that was asked for whatever the umask is, and goes
// with its listener; a file that is left over is replaced, and nothing else is.
func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	spec := Spec{Unix: path, Mode: 0o662}
	ln := open(t, spec)
	connects(t, ln)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o662 || spec.Name() != "unix:"+path {
		t.Errorf("%v, %v, named %s", info.Mode(), err, spec.Name())
	}
	if _, err := spec.Open(nil); err == nil || !strings.Contains(err.Error(), "somebody listens on "+path+" already") {
		t.Errorf("a second one: %v", err)
	}
	connects(t, ln)
	ln.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file of a closed listener: %v", err)
	}

	left := open(t, spec)
	left.Own(false)
	left.Close()
	connects(t, open(t, spec))

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Spec{Unix: file, Mode: 0o600}).Open(nil); err == nil || !strings.Contains(err.Error(), "is no socket; remove it, or listen elsewhere") {
		t.Errorf("a file: %v", err)
	}
	if data, err := os.ReadFile(file); string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	other := datagrams.LocalAddr().String()
	if _, err := (Spec{Unix: other, Mode: 0o600}).Open(nil); err == nil || !strings.Contains(err.Error(), other+" is there and is no socket to listen on (") {
		t.Errorf("a socket for datagrams: %v", err)
	}
	if _, err := os.Lstat(other); err != nil {
		t.Error(err)
	}
	absent := Spec{Unix: filepath.Join(t.TempDir(), "absent", "a.sock"), Mode: 0o600}
	if _, err := absent.Open(nil); err == nil {
		t.Error("a socket in a folder that does not exist")
	}
}

// TestIsStale: a socket is replaced only if connecting to it was refused, and what else
// became of that is told.
func TestIsStale(t *testing.T) {
	for _, test := range []struct {
		of    error
		stale bool
		want  string // "": no error
	}{
		{syscall.ECONNREFUSED, true, ""},
		{syscall.ENOENT, false, ""},
		{syscall.EACCES, false, "this process may not connect to it (dial unix: connect: permission denied); remove it if nobody does"},
		{syscall.EPERM, false, "this process may not connect to it"},
		{syscall.EAGAIN, false, "somebody listens on a.sock already"},
		{syscall.EPROTOTYPE, false, "is no socket to listen on"},
	} {
		stale, err := isStale("a.sock", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", test.of)})
		if stale != test.stale || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, %v", test.of, stale, err)
		}
	}
}

// TestInherit: sockets are found by their names, with the mode that is asked for now;
// their files go only once they are owned.
func TestInherit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	before := []Listener{open(t, Spec{Unix: path, Mode: 0o600}), open(t, Spec{For: "admin", TCP: "127.0.0.1:0"})}
	inherit := func() *Given {
		t.Helper()
		var names []string
		var files []*os.File
		for _, ln := range before {
			f, err := ln.File()
			if err != nil {
				t.Fatal(err)
			}
			files, names = append(files, f), append(names, ln.Name)
		}
		g, err := newGiven(names, files)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	given := inherit()
	all, err := Spec{Unix: path, Mode: 0o640}.Open(given)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	connects(t, all[0])
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if own, err := (Spec{TCP: "127.0.0.1:0"}).Open(given); err != nil || own[0].Addr().String() == before[1].Addr().String() {
		t.Errorf("the admin's socket for clients: %v, %v", own, err)
	} else {
		own[0].Close()
	}
	if rest := given.CloseRest(); len(rest) != 1 || rest[0] != "admin 127.0.0.1:0" {
		t.Errorf("left: %v", rest)
	}
	all[0].Close()
	connects(t, before[0]) // the file is there
	given = inherit()
	again, err := Spec{Unix: path, Mode: 0o600}.Open(given)
	if err != nil {
		t.Fatal(err)
	}
	given.CloseRest()
	before[0].Own(false)
	before[0].Close()
	connects(t, again[0])
	again[0].Own(true)
	again[0].Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file after the last process: %v", err)
	}
}

// TestReusePort: two may listen at one port if both say so.
func TestReusePort(t *testing.T) {
	first := open(t, Spec{TCP: "127.0.0.1:0", ReusePort: true})
	same := first.Addr().String()
	open(t, Spec{TCP: same, ReusePort: true})
	if _, err := (Spec{TCP: same}).Open(nil); err == nil {
		t.Error("somebody else can listen too")
	}
	alone := open(t, Spec{TCP: "127.0.0.1:0"})
	connects(t, alone)
	if _, err := (Spec{TCP: alone.Addr().String(), ReusePort: true}).Open(nil); err == nil {
		t.Error("a port that is not shared")
	}
}

// TestEveryAddress: without a host a port is open on all that the machine has, of
// either family.
func TestEveryAddress(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		ln := open(t, Spec{TCP: ":0", ReusePort: reuse})
		port := ln.Addr().(*net.TCPAddr).Port
		all, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, a := range all {
			ip := a.(*net.IPNet).IP
			if ip.IsLinkLocalUnicast() { // for those a zone is needed too
				continue
			}
			found++
			c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: ip, Port: port})
			if err != nil {
				t.Error(err)
				continue
			}
			accepted, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			accepted.Close()
			c.Close()
		}
		if found == 0 {
			t.Error("the machine has no address")
		}
	}
}
