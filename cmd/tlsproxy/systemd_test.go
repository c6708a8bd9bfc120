package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// activated is the program as systemd starts it with sockets of some names
// (sd_listen_fds(3)): the process's own number is in its environment.
func activated(t *testing.T, file, names string, listeners ...net.Listener) *exec.Cmd {
	t.Helper()
	process := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" run -c "$1"`, os.Args[0], file)
	process.Env = append(os.Environ(), fmt.Sprint("LISTEN_FDS=", len(listeners)), "LISTEN_FDNAMES="+names)
	for _, ln := range listeners {
		f, err := ln.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		process.ExtraFiles = append(process.ExtraFiles, f)
	}
	return process
}

func listenOn(t *testing.T, network, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// TestSystemdSockets serves on sockets that were opened for the process, several
// of one name and a Unix socket among them.
func TestSystemdSockets(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer backend.Close()
	unix := filepath.Join(t.TempDir(), "a.sock")
	all := []net.Listener{listenOn(t, "tcp", "127.0.0.1:0"), listenOn(t, "unix", unix), listenOn(t, "tcp", "127.0.0.1:0"), listenOn(t, "tcp", "127.0.0.1:0")}
	file := files(t, selfSigned(t), "listen: ['systemd:https', 'systemd:local']\nbackends: {urls: '"+backend.URL+"'}\n")
	process := activated(t, file, "https:local:https:other", all...)
	log := new(logtest.Buffer)
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	log.Find(`sockets that the process was given and that listen does not name are closed" names=\[(systemd:other)\]`)
	log.Find(`(?s)msg=listening address=127.*msg=listening address=127.*msg=listening address=(/)`)
	for _, ln := range all[:3] {
		c, err := tls.Dial(ln.Addr().Network(), ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	process.Process.Signal(syscall.SIGTERM)
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(unix); err != nil { // it is systemd's
		t.Error(err)
	}

	absent := activated(t, file, "htps:local", all[:2]...)
	var errText bytes.Buffer
	absent.Stderr = &errText
	if err := absent.Run(); err == nil || !strings.Contains(errText.String(), `conf.yaml:2:10: no socket "https": those of systemd that are left are htps, local;`) {
		t.Errorf("%v: %s", err, &errText)
	}
	if status, _, text := tlsproxy("run", "-c", file); status != exitFailure || !strings.Contains(text, `no socket "https": systemd has given this process none;`) {
		t.Errorf("%d: %s", status, text)
	}
	datagrams := activated(t, file, "https")
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	f, err := packets.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	datagrams.ExtraFiles = []*os.File{f}
	datagrams.Env = slices.DeleteFunc(datagrams.Env, func(s string) bool { return s == "LISTEN_FDS=0" })
	datagrams.Env = append(datagrams.Env, "LISTEN_FDS=1")
	errText.Reset()
	datagrams.Stderr = &errText
	if err := datagrams.Run(); err == nil || !strings.Contains(errText.String(), `sockets: of those that systemd has opened, "https" cannot be listened on: `) {
		t.Errorf("%v: %s", err, &errText)
	}
}
