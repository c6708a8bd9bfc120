package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// process is a program that runs until the test ends.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	lines  chan string // of stdout and stderr, in the order in which they came
	exited chan struct{}
	err    error          // of Wait, once exited is closed
	end    syscall.Signal // that it obeys with exit status 0

	mu     sync.Mutex
	output bytes.Buffer // all of the lines, for the log of a failed test
}

// maxLines is how many lines of a process can wait to be read; older ones are
// dropped, as it would wait otherwise.
const maxLines = 1 << 16

// start runs a program and arranges for its end: by SIGTERM, unless end is set, which
// it has to obey with exit status 0 and no report of the race detector.
func start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), lines: make(chan string, maxLines), exited: make(chan struct{}), end: syscall.SIGTERM}
	reader, writer := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // else a second for each end
	p.cmd.WaitDelay = patience
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(reader)
	go func() {
		p.err = p.cmd.Wait()
		writer.Close()
		close(p.exited)
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *process) read(r io.Reader) {
	defer close(p.lines)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.output.WriteString(scanner.Text() + "\n")
		p.mu.Unlock()
		p.push(scanner.Text())
	}
	io.Copy(io.Discard, r)
}

// push adds a line, in place of the oldest where nobody asks for them.
func (p *process) push(line string) {
	for {
		select {
		case p.lines <- line:
			return
		default:
		}
		select {
		case <-p.lines:
		default:
		}
	}
}

// line returns the next line for which match is true, and drops those before.
func (p *process) line(match func(string) bool) string {
	p.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended while a line of its output was awaited; it wrote:\n%s", p.cmd.Path, p.written())
			}
			if match(line) {
				return line
			}
		case <-timeout.C:
			p.t.Fatalf("%s did not write the line awaited within %v; it wrote:\n%s", p.cmd.Path, patience, p.written())
		}
	}
}

func (p *process) written() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// alive fails the test if the process has ended.
func (p *process) alive() {
	p.t.Helper()
	select {
	case <-p.exited:
		p.t.Fatalf("%s has ended (%v); it wrote:\n%s", p.cmd.Path, p.err, p.written())
	default:
	}
}

func (p *process) stop() {
	p.cmd.Process.Signal(p.end)
	timeout := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timeout.Stop()
	for range p.lines { // the writer must not be held up
	}
	<-p.exited
	if p.err != nil {
		p.t.Errorf("%s did not end well after %v: %v; it wrote:\n%s", p.cmd.Path, p.end, p.err, p.written())
	}
	if strings.Contains(p.written(), "DATA RACE") {
		p.t.Errorf("%s has a data race; it wrote:\n%s", p.cmd.Path, p.written())
	}
}

// result is what a program that ran to its end left.
type result struct {
	status         int
	stdout, stderr string
}

// run runs a program to its end; stdin is what it is given to read.
func run(t testing.TB, stdin, program string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v (%v)\n%s", strings.Join(cmd.Args, " "), err, ctx.Err(), stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// connection is a line of interop/client's output.
type connection struct {
	outcome.Handshake
	HTTP *struct {
		Status      int
		Proto, Body string
	}
	Echoed int
}

// dialed is what a run of interop/client gave.
type dialed struct {
	exit        outcome.Exit
	connections []connection
	stderr      string
}

// dial runs a build of interop/client.
func dial(t testing.TB, client string, args ...string) dialed {
	t.Helper()
	r := run(t, "", client, args...)
	d := dialed{exit: outcome.Exit(r.status), stderr: r.stderr}
	decode(t, r.stdout, &d.connections)
	return d
}

// last is the last connection of a run that made some.
func (d dialed) last(t testing.TB) connection {
	t.Helper()
	if len(d.connections) == 0 {
		t.Fatalf("the client made no connection (exit %d): %s", d.exit, d.stderr)
	}
	return d.connections[len(d.connections)-1]
}

// decode reads JSON objects, one after the other, into a slice.
func decode[T any](t testing.TB, text string, list *[]T) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	for decoder.More() {
		var v T
		if err := decoder.Decode(&v); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		*list = append(*list, v)
	}
}

func (c connection) String() string {
	group := "none"
	if c.Group != nil {
		group = c.Group.Name
	}
	return fmt.Sprintf("group %s, HRR %v, resumed %v, ALPN %q, shares %v, exit %d %s",
		group, c.HelloRetryRequest, c.Resumed, c.ALPN, c.SharesSent, c.Exit, c.Error)
}

// TestUnreadLines: a program whose lines nobody reads does not have to wait.
func TestUnreadLines(t *testing.T) {
	p := &process{t: t, lines: make(chan string, 2)}
	for i := range 5 {
		p.push(fmt.Sprint(i))
	}
	if a, b := <-p.lines, <-p.lines; a != "3" || b != "4" {
		t.Errorf("%s and %s are left", a, b)
	}
}
