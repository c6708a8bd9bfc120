package systemd

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNotifier pins what is said, to a manager and to none.
func TestNotifier(t *testing.T) {
	var log bytes.Buffer
	n := Notifier{slog.New(slog.NewTextHandler(&log, nil))}
	t.Setenv("NOTIFY_SOCKET", "")
	n.Ready("x")
	if log.Len() > 0 {
		t.Errorf("without a manager: %s", &log)
	}
	path := filepath.Join(t.TempDir(), "notify")
	t.Setenv("NOTIFY_SOCKET", path)
	n.Ready("x")
	if !strings.Contains(log.String(), "the service manager could not be told") {
		t.Errorf("a manager that is not there: %s", &log)
	}
	manager := manage(t, path)
	for want, say := range map[string]func(){
		"READY=1\nSTATUS=serving":              func() { n.Ready("serving") },
		"RELOADING=1\nMONOTONIC_USEC=[0-9]+\n": n.Reloading,
		"STOPPING=1\nSTATUS=draining":          func() { n.Stopping("draining") },
		"STATUS=as ever":                       func() { n.Status("as ever") },
		"MAINPID=7":                            func() { n.MainProcess(7) },
	} {
		say()
		if got := heard(t, manager); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// TestManagerThatDoesNotRead holds nobody up for good.
func TestManagerThatDoesNotRead(t *testing.T) {
	manage(t, filepath.Join(t.TempDir(), "notify"))
	var log bytes.Buffer
	n := Notifier{slog.New(slog.NewTextHandler(&log, nil))}
	for log.Len() == 0 {
		n.Ready(strings.Repeat("x", 8<<10))
	}
	if !strings.Contains(log.String(), "i/o timeout") {
		t.Error(&log)
	}
}

// manage is a manager of this process, at a socket.
func manage(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { manager.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return manager
}

func heard(t *testing.T, manager *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	k, err := manager.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:k])
}

// TestWatch: the watchdog hears of a process as long as it is alive, and nobody
// does where there is none.
func TestWatch(t *testing.T) {
	manager := manage(t, filepath.Join(t.TempDir(), "notify"))
	var log bytes.Buffer
	n := Notifier{slog.New(slog.NewTextHandler(&log, nil))}
	dead := func() { t.Error("asked whether it is alive") }
	for _, usec := range []string{"", "0"} {
		t.Setenv("WATCHDOG_USEC", usec)
		n.Watch(context.Background(), dead)
	}
	if !strings.Contains(log.String(), "WATCHDOG_USEC must be a positive number") {
		t.Error(&log)
	}
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", "1") // another process's
	n.Watch(context.Background(), dead)
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	ended := make(chan bool)
	go func() {
		n.Watch(ctx, func() { asked++ })
		close(ended)
	}()
	for range 3 {
		if got := heard(t, manager); got != "WATCHDOG=1" {
			t.Errorf("%q", got)
		}
	}
	cancel()
	<-ended
	if asked < 3 {
		t.Errorf("asked %d times", asked)
	}
}
