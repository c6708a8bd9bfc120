package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// manager is a service manager that is told how processes are.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(t.TempDir(), "notify")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &manager{t, conn}
}

// expect waits for the next message but for those of the watchdog, and wants it to
// match.
func (m *manager) expect(pattern string) []string {
	m.t.Helper()
	for {
		b := make([]byte, 4096)
		n, err := m.conn.Read(b)
		if err != nil {
			m.t.Fatal(err)
		}
		if message := string(b[:n]); message != "WATCHDOG=1" {
			found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(message)
			if found == nil {
				m.t.Fatalf("the service manager was told %q, want %s", message, pattern)
			}
			return found
		}
	}
}

// load asks a proxy for all that clients ask for, until stop, and counts.
type load struct {
	address      string
	stop         context.CancelFunc
	working      sync.WaitGroup
	done, failed atomic.Int64
}

// startLoad has some clients keep their connections, over both HTTPs, and one make
// a new one each time. Each request has a body, which the answer repeats.
func startLoad(t *testing.T, address string) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{address: address, stop: stop}
	for i, kind := range []struct{ http2, anew bool }{{false, false}, {true, false}, {false, true}, {false, false}, {true, true}} {
		transport := &http.Transport{DisableKeepAlives: kind.anew, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}, Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!kind.http2)
		transport.Protocols.SetHTTP2(kind.http2)
		l.working.Go(func() {
			defer transport.CloseIdleConnections()
			for n := 0; ctx.Err() == nil; n++ {
				want := fmt.Sprint("client ", i, " request ", n)
				if err := l.ask(transport, want); err != nil {
					l.failed.Add(1)
					t.Errorf("%+v: %v", kind, err)
				}
				l.done.Add(1)
			}
		})
	}
	return l
}

func (l *load) ask(transport *http.Transport, want string) error {
	r, err := http.NewRequest(http.MethodPost, "https://"+l.address+"/", strings.NewReader(want))
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || string(body) != want {
		return fmt.Errorf("status %d, %q for %q, %v", response.StatusCode, body, want, err)
	}
	return nil
}

// more waits until so many more requests were answered.
func (l *load) more(n int64) {
	for end := l.done.Load() + n; l.done.Load() < end; {
		runtime.Gosched()
	}
}

// TestUpgrade has processes take over from each other while clients ask, without
// a failed request; a program that does not start, or refuses its configuration,
// leaves the one that serves as it is; sessions resume at successors, a WebSocket-like
// stream goes on at its own process, and the service manager is told of it all.
func TestUpgrade(t *testing.T) {
	release := make(chan struct{})
	streaming := make(chan bool, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			io.WriteString(w, "begun ")
			http.NewResponseController(w).Flush()
			streaming <- true
			<-release
			io.WriteString(w, "ended")
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	}))
	defer backend.Close()
	socket := filepath.Join(t.TempDir(), "a.sock")
	valid := "listen: ['127.0.0.1:0', 'unix:" + socket + "']\nbackends: {urls: '" + backend.URL + "'}\nadmin: {listen: '127.0.0.1:0'}\n" +
		"timeouts: {drain: 1h}\nlimits: {handshakes_per_source: 4096}\n"
	file := files(t, selfSigned(t), valid)
	dir := filepath.Dir(file)
	program := filepath.Join(dir, "tlsproxy")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		t.Helper()
		os.Remove(program)
		if err := os.Symlink(to, program); err != nil {
			t.Fatal(err)
		}
	}
	const head = "certificates: [{cert: cert.pem, key: key.pem}]\n"
	write("broken", "#!/bin/sh\necho this build is broken >&2\nexit 3\n", 0o700)
	link(os.Args[0])

	m := newManager(t)
	log := new(logtest.Buffer)
	process := exec.Command(program, "run", "-c", file)
	process.Stderr = log
	process.Env = append(os.Environ(), "NOTIFY_SOCKET="+m.conn.LocalAddr().String(), "WATCHDOG_USEC=100000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	address := log.Find(`msg=listening address=(127\S+)`)
	admin := log.Find(`msg="admin listener" address=(\S+)`)
	m.expect("READY=1\nSTATUS=serving")
	signal := func(pid int, s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	pid := process.Process.Pid
	signal(pid, syscall.SIGHUP)
	m.expect("RELOADING=1\nMONOTONIC_USEC=[0-9]+\n")
	m.expect("READY=1\nSTATUS=serving")
	write("conf.yaml", valid+"listne: oh\n", 0o600)
	signal(pid, syscall.SIGHUP)
	m.expect("RELOADING=1\nMONOTONIC_USEC=[0-9]+\n")
	m.expect("READY=1\nSTATUS=serving; the latest reload failed, see the log")
	write("conf.yaml", head+valid, 0o600)

	sessions := tls.NewLRUClientSessionCache(1)
	resumes := func(network, address string) bool {
		t.Helper()
		c, err := tls.Dial(network, address, &tls.Config{InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: sessions, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		if _, err := io.ReadAll(c); err != nil { // tickets come first
			t.Fatal(err)
		}
		return c.ConnectionState().DidResume
	}
	if resumes("tcp", address) {
		t.Error("the first session is a resumed one")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	idle := &load{address: address}
	if err := idle.ask(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, "and no more"); err != nil {
		t.Fatal(err)
	}
	stream, err := client.Get("https://" + address + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	<-streaming

	l := startLoad(t, address)
	l.more(100)
	for _, spoiled := range []struct {
		spoil        func()
		want, reason string
	}{
		{func() { link(filepath.Join(dir, "broken")) }, "exit status 3", "this build is broken"},
		{func() { write("conf.yaml", valid+"listne: oh\n", 0o600) }, "exit status 1", `did you mean "listen"?`},
		{func() { // it has taken the sockets when it finds that one is taken
			write("conf.yaml", head+strings.Replace(valid, "'127.0.0.1:0'}", "'"+backend.Listener.Addr().String()+"'}", 1), 0o600)
		}, "exit status 1", "bind: address already in use"},
	} {
		spoiled.spoil()
		signal(pid, syscall.SIGUSR2)
		if line := log.Find(`msg="the upgrade failed; this process serves on" err="(.*)"`); !strings.HasSuffix(line, "has ended before it served: "+spoiled.want) {
			t.Errorf("%s, want %s", line, spoiled.want)
		}
		m.expect("STATUS=serving; the latest upgrade failed, see the log")
		if all := log.Take("the upgrade failed"); !strings.Contains(all, spoiled.reason) {
			t.Errorf("the new process does not say why: %s", all)
		}
		link(os.Args[0])
		write("conf.yaml", head+valid, 0o600)
		l.more(50)
		resumes("unix", socket)
	}
	failures := func() string {
		t.Helper()
		response, err := client.Get("http://" + admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "\ntlsproxy_upgrade_failures_total ")
		count, _, _ := strings.Cut(after, "\n")
		return count
	}
	if got := failures(); got != "3" {
		t.Errorf("failed upgrades counted: %q", got)
	}
	for range 3 {
		signal(pid, syscall.SIGUSR2)
		told := m.expect("MAINPID=([0-9]+)")
		m.expect("READY=1\nSTATUS=serving")
		l.more(200)
		if next, err := strconv.Atoi(told[1]); err != nil || next == pid {
			t.Fatalf("the successor of %d is %v, %v", pid, told, err)
		} else {
			pid = next
		}
		if !resumes("tcp", address) || !resumes("unix", socket) {
			t.Error("a session did not resume at the successor")
		}
		response, err := client.Get("http://" + admin + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Error(response.Status)
		}
	}
	if got := failures(); got != "0" {
		t.Errorf("failed upgrades counted at the last process: %q", got)
	}
	l.stop()
	l.working.Wait()
	if l.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", l.failed.Load(), l.done.Load())
	}
	close(release)
	if body, err := io.ReadAll(stream.Body); err != nil || string(body) != "begun ended" {
		t.Errorf("a stream through the first process: %q, %v", body, err)
	}
	stream.Body.Close()
	client.CloseIdleConnections()
	signal(process.Process.Pid, syscall.SIGTERM) // it leaves the idle connection alone as yet
	signal(pid, syscall.SIGTERM)
	m.expect("STOPPING=1\nSTATUS=draining")
	// Their standard error is one pipe: this returns when the last has ended.
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "msg=drained"); n != 4 {
		t.Errorf("%d processes have drained; the log is\n%s", n, log)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the Unix socket's file after the last process: %v", err)
	}
}

// TestSuccessorBreaksDown: a process whose successor is gone before it has left itself says
// so, keeps no idle connection any longer, and ends as one that failed, so that whoever looks
// after it starts another.
func TestSuccessorBreaksDown(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	file := files(t, selfSigned(t), "listen: '127.0.0.1:0'\nbackends: {urls: '"+backend.URL+"'}\ntimeouts: {drain: 1h}\n")
	log := new(logtest.Buffer)
	process := exec.Command(os.Args[0], "run", "-c", file)
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	idle, err := tls.Dial("tcp", log.Find(`msg=listening address=(127\S+)`), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	fmt.Fprint(idle, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answers := bufio.NewReader(idle)
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if err := process.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	successor, err := strconv.Atoi(log.Find(`a new process serves in place of this one" process=(\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	log.Find("msg=leaving")
	if err := syscall.Kill(successor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(answers); err != nil {
		t.Error(err)
	}
	var failed *exec.ExitError
	if err := process.Wait(); !errors.As(err, &failed) || failed.ExitCode() != exitFailure {
		t.Errorf("the process ended by %v", err)
	}
	log.Find(`level=ERROR msg="the process that took over has ended; nobody serves until another is started" process=` + strconv.Itoa(successor) + ` err="signal: killed"`)
}
