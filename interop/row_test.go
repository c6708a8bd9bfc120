package interop

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// Many handshakes through one proxy, each with a request: none fails, all are
// with our group, and the proxy keeps no connection.
func TestHandshakesInARow(t *testing.T) {
	e := startProxy(t, proxyOptions{})
	e.lives(prime761)
	before := openFiles(t, e.cmd.Process.Pid)
	for _, concurrency := range []int{1, 16} {
		s := dialMany(t, e, inARow, concurrency)
		if s.Failed != 0 || s.Connections != inARow || s.Groups[prime761] != inARow {
			t.Errorf("%d at a time: %+v", concurrency, s)
		}
		t.Logf("%d handshakes, %d at a time, in %.1f s", s.Connections, concurrency, s.Seconds)
	}
	e.lives(prime761)
	settle(t, e.cmd.Process.Pid, before)
}

// dialMany runs interop/client for many connections and returns its summary.
func dialMany(t *testing.T, e *endpoint, count, concurrency int) outcome.Summary {
	t.Helper()
	r := run(t, "", program(t, hookClient, "client"), e.address, "--ca", pki.CA, "--server-name", "localhost", "--get", "/row",
		"--count", strconv.Itoa(count), "--concurrency", strconv.Itoa(concurrency), "--summary")
	var summaries []outcome.Summary
	decode(t, strings.TrimSpace(r.stdout), &summaries)
	if len(summaries) != 1 {
		t.Fatalf("exit %d: %s%s", r.status, r.stdout, r.stderr)
	}
	return summaries[0]
}
