package upgrade

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
)

// mode says how the test binary is a successor.
const mode = "UPGRADE_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(mode) {
	case "":
		goleak.VerifyTestMain(m)
	case "hangs":
		time.Sleep(time.Hour)
	case "leaves":
		os.Exit(0)
	case "fails":
		os.Exit(7)
	case "babbles":
		os.NewFile(readyAt, "").WriteString("readi\n")
		os.Exit(8)
	case "serves":
		if err := succeed(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// succeed answers one connection on the socket that was inherited, once released.
func succeed() error {
	before, given, err := Inherit()
	if err != nil || before == nil {
		return fmt.Errorf("no predecessor: %w", err)
	}
	all, err := sockets.Spec{TCP: "192.0.2.1:1"}.Open(given) // an address that could not be listened on
	if err != nil {
		return err
	}
	if rest := given.CloseRest(); len(rest) != 1 || rest[0] != "unused" {
		return fmt.Errorf("sockets that are left: %v", rest)
	}
	if err := before.Relieve(context.Background()); err != nil {
		return err
	}
	c, err := all[0].Accept()
	if err != nil {
		return err
	}
	_, again := os.LookupEnv(variable)
	fmt.Fprint(c, "successor, ", again, " ", os.Getenv("WATCHDOG_PID"), " ", len(before.Secret()), " ", sha256.Sum256(before.Secret()))
	return c.Close()
}

func options(t *testing.T, how string) Options {
	t.Helper()
	t.Setenv(mode, how)
	program, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	var all []sockets.Listener
	for _, name := range []string{"192.0.2.1:1", "unused"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		all = append(all, sockets.Listener{Listener: ln, Name: name})
	}
	return Options{Program: program, Sockets: all, Within: time.Hour}
}

// TestStart: the successor serves on the socket once it was released, also when
// nobody listens here any more; and this process can listen on until then.
func TestStart(t *testing.T) {
	t.Setenv("WATCHDOG_PID", "1")
	o := options(t, "serves")
	o.Secret = make([]byte, MaxSecret) // more than a pipe may have room for
	rand.Read(o.Secret)
	sum := sha256.Sum256(o.Secret)
	s, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(o.Secret, make([]byte, MaxSecret)) {
		t.Error("the secret is still there")
	}
	ln := o.Sockets[0]
	mine := make(chan error, 1)
	go func() { // it does not block although the socket is shared
		c, err := ln.Accept()
		if err == nil {
			c.Close()
		}
		mine <- err
	}()
	address := ln.Addr().String()
	if c, err := net.Dial("tcp", address); err != nil {
		t.Fatal(err)
	} else if err := <-mine; err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	ln.Close()
	s.Release()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if said, err := io.ReadAll(c); err != nil || string(said) != fmt.Sprint("successor, false  ", MaxSecret, " ", sum) {
		t.Errorf("%q, %v", said, err)
	}
	if err := <-s.ended; err != nil || s.PID == os.Getpid() {
		t.Errorf("process %d ended with %v", s.PID, err)
	}
}

// TestStartFails: each way in which a successor comes to nothing is told, and
// leaves no process behind.
func TestStartFails(t *testing.T) {
	stopped, stop := context.WithCancelCause(context.Background())
	stop(errors.New("told to end"))
	for _, test := range []struct {
		how, want string
		ctx       context.Context
		within    time.Duration
	}{
		{"fails", "has ended before it served: exit status 7", context.Background(), time.Hour},
		{"leaves", "has ended before it served", context.Background(), time.Hour},
		{"babbles", "has ended before it served: exit status 8", context.Background(), time.Hour},
		{"hangs", "does not serve after 50ms", context.Background(), 50 * time.Millisecond},
		{"hangs", "was not waited for: told to end", stopped, time.Hour},
	} {
		o := options(t, test.how)
		o.Within, o.Secret = test.within, make([]byte, MaxSecret)
		if _, err := Start(test.ctx, o); err == nil || !strings.HasPrefix(err.Error(), "upgrade: the new process ") || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: %v", test.how, err)
		}
	}
	o := options(t, "serves")
	o.Program = "/absent/program"
	if _, err := Start(context.Background(), o); err == nil || !strings.HasPrefix(err.Error(), "upgrade: ") {
		t.Errorf("a program that is not there: %v", err)
	}
	o.Secret = make([]byte, MaxSecret+1)
	if _, err := Start(context.Background(), o); err == nil || !strings.Contains(err.Error(), "a secret of 65537 bytes; the most is 65536") {
		t.Errorf("a secret that is too long: %v", err)
	}
	o.Secret = nil
	o.Sockets = append(o.Sockets, sockets.Listener{Listener: noFile{}, Name: "odd"})
	if _, err := Start(context.Background(), o); err == nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a listener without a descriptor: %v", err)
	}
}

type noFile struct{ net.Listener }

// TestInherit: without a predecessor there is nothing, and what is not from one is
// an error.
func TestInherit(t *testing.T) {
	if p, given, err := Inherit(); p != nil || given != nil || err != nil {
		t.Errorf("%v, %v, %v", p, given, err)
	}
	t.Setenv(variable, "yes")
	if _, _, err := Inherit(); err == nil || !strings.Contains(err.Error(), "is not from a process like this one; unset it") {
		t.Error(err)
	}
}

// TestRelieve: a predecessor that is gone has released, and waiting can be ended.
func TestRelieve(t *testing.T) {
	readyR, readyW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer readyR.Close()
	releaseR, releaseW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer releaseW.Close()
	ctx, cancel := context.WithCancel(context.Background())
	relieved := make(chan error, 1)
	go func() { relieved <- (&Predecessor{ready: readyW, release: releaseR}).Relieve(ctx) }()
	said := make([]byte, len(word))
	if _, err := io.ReadFull(readyR, said); err != nil || !bytes.Equal(said, []byte(word)) {
		t.Errorf("%q, %v", said, err)
	}
	cancel()
	if err := <-relieved; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}
