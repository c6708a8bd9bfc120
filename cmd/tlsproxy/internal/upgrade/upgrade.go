package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
)

// variable holds the names of the sockets that a successor inherits, as a JSON
// list. Their descriptors are those behind the pipes', in that order.
const variable = "TLSPROXY_PREDECESSOR"

// The descriptors of a successor.
const (
	readyAt   = 3 // where it says that it serves
	releaseAt = 4 // where it hears that it has taken over
	secretAt  = 5 // what nobody else is to know
	socketsAt = 6
)

// MaxSecret bounds Options.Secret, in bytes.
const MaxSecret = 64 << 10

// Successor is a process that serves in this one's place.
type Successor struct {
	PID     int
	release io.Closer
	ended   <-chan error
}

// Options say what to start.
type Options struct {
	Program string             // the path
	Args    []string           // without the program's name
	Sockets []sockets.Listener // what it inherits
	Within  time.Duration      // until it has to serve
	Secret  []byte             // for it alone; Start wipes it
}

// Program returns the path by which this process was started, where the
// successor's program is looked for: a link that has been changed since leads
// elsewhere.
func Program() (string, error) { return program, errProgram }

var program, errProgram = func() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return "", fmt.Errorf("upgrade: finding this program: %w", err)
	}
	return filepath.Abs(path) // the folder may be another later
}()

// Start starts a successor and waits until it serves. If it ends before, or has
// not said so in time, or ctx is done, it is killed, and the error says why.
func Start(ctx context.Context, o Options) (*Successor, error) {
	if os.Getpid() == 1 {
		return nil, errors.New("upgrade: this is process 1, with which its container ends; start another container in its place")
	}
	defer clear(o.Secret)
	if len(o.Secret) > MaxSecret {
		return nil, fmt.Errorf("upgrade: a secret of %d bytes; the most is %d", len(o.Secret), MaxSecret)
	}
	cmd := exec.Command(o.Program, o.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	var l line
	defer l.close()
	if err := l.open(cmd, o.Sockets); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	l.theirs.close()
	s := &Successor{PID: cmd.Process.Pid, ended: waitFor(cmd)}
	told := make(chan struct{})
	go func() { // a pipe may have room for less
		defer close(told)
		l.secret.Write(o.Secret) // if it has gone that shows
		l.secret.Close()
	}()
	err := s.awaitReady(ctx, l.ready, o.Within)
	if err != nil {
		cmd.Process.Kill()
		l.secret.Close()
	}
	<-told // before the secret is wiped
	if err != nil {
		return nil, fmt.Errorf("upgrade: the new process %d %w", s.PID, err)
	}
	s.release, l.release = l.release, nil
	return s, nil
}

// files are descriptors.
type files []*os.File

func (f *files) close() {
	for _, one := range *f {
		one.Close()
	}
	*f = nil
}

// line is what processes are joined by: three pipes' ends here, and what a successor
// gets copies of.
type line struct {
	ready, release, secret *os.File // nil: not open
	theirs                 files
}

// close closes what is open.
func (l *line) close() {
	for _, ours := range []*os.File{l.ready, l.release, l.secret} {
		if ours != nil {
			ours.Close()
		}
	}
	l.theirs.close()
}

// open has a command inherit the pipes and the sockets.
func (l *line) open(cmd *exec.Cmd, listeners []sockets.Listener) error {
	var says, hears, learns *os.File
	var err error
	if l.ready, says, err = os.Pipe(); err != nil {
		return err
	}
	l.theirs = append(l.theirs, says)
	if hears, l.release, err = os.Pipe(); err != nil {
		return err
	}
	l.theirs = append(l.theirs, hears)
	if learns, l.secret, err = os.Pipe(); err != nil {
		return err
	}
	l.theirs = append(l.theirs, learns)
	names := make([]string, len(listeners))
	for i, ln := range listeners {
		copied, err := ln.File()
		if err != nil {
			return err
		}
		l.theirs = append(l.theirs, copied)
		names[i] = ln.Name
	}
	list, err := json.Marshal(names)
	if err != nil {
		panic("upgrade: " + err.Error()) // they are strings
	}
	cmd.ExtraFiles = l.theirs
	cmd.Env = append(environment(), variable+"="+string(list))
	return nil
}

// environment is the process's own but for what is about this process alone.
func environment() (kept []string) {
	for _, entry := range os.Environ() {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case variable, "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES":
		default:
			kept = append(kept, entry)
		}
	}
	return kept
}

func waitFor(cmd *exec.Cmd) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended
}

// word is what a successor writes once it serves.
const word = "ready\n"

// awaitReady waits for the word.
func (s *Successor) awaitReady(ctx context.Context, from *os.File, within time.Duration) error {
	heard := make(chan string, 1)
	go func() {
		said, _ := io.ReadAll(io.LimitReader(from, int64(len(word))))
		heard <- string(said)
	}()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	var exited <-chan error
	for {
		select {
		case said := <-heard:
			if said == word {
				return nil
			}
			heard, exited = nil, s.ended // its end of the pipe is closed
		case err := <-exited:
			return ended(err)
		case <-timeout.C:
			return fmt.Errorf("does not serve after %v", within)
		case <-ctx.Done():
			return fmt.Errorf("was not waited for: %w", context.Cause(ctx))
		}
	}
}

func ended(err error) error {
	if err == nil {
		return errors.New("has ended before it served")
	}
	return fmt.Errorf("has ended before it served: %w", err)
}

// Ended gives one value once the successor has ended: nil if it did so in good order, as
// when it is told to or has a successor itself.
func (s *Successor) Ended() <-chan error { return s.ended }

// Release tells the successor that it has taken over.
func (s *Successor) Release() { s.release.Close() }

// Predecessor is the process that has started this one as its successor.
type Predecessor struct {
	ready, release *os.File
	secret         []byte
}

// Secret returns Options.Secret of the predecessor. The caller wipes it.
func (p *Predecessor) Secret() []byte { return p.secret }

// Inherit returns the predecessor and its sockets; nil if there is none. It can be
// called once.
func Inherit() (*Predecessor, *sockets.Given, error) {
	list, ok := os.LookupEnv(variable)
	if !ok {
		return nil, nil, nil
	}
	os.Unsetenv(variable)
	var names []string
	if err := json.Unmarshal([]byte(list), &names); err != nil {
		return nil, nil, fmt.Errorf("upgrade: %s in the environment is not from a process like this one; unset it: %w", variable, err)
	}
	given, err := sockets.Inherit(names, socketsAt)
	if err != nil {
		return nil, nil, fmt.Errorf("upgrade: what the process before has left: %w", err)
	}
	secret, err := readSecret(inherited(secretAt, "secret"))
	if err != nil {
		given.CloseRest()
		return nil, nil, fmt.Errorf("upgrade: what the process before has to tell: %w", err)
	}
	return &Predecessor{inherited(readyAt, "ready"), inherited(releaseAt, "release"), secret}, given, nil
}

// readSecret reads to the end, and leaves no copy behind.
func readSecret(from *os.File) ([]byte, error) {
	defer from.Close()
	secret := make([]byte, MaxSecret)
	n, err := io.ReadFull(from, secret)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return secret[:n], err
}

// Relieve says to the predecessor that this process serves, and returns when it
// has taken over, or ctx is done.
func (p *Predecessor) Relieve(ctx context.Context) error {
	defer p.ready.Close()
	defer p.release.Close()
	if _, err := io.WriteString(p.ready, word); err != nil {
		return fmt.Errorf("upgrade: telling the process before: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { p.release.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := p.release.Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("upgrade: waiting for the process before: %w", err)
	}
	return nil
}
