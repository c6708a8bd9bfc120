package interop

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

var update = flag.Bool("interop.update", false, "rewrite testdata/matrix.md")

// The axes of the matrix. A peer called "go" is built by the plain go command:
// it is a stock Go peer; one called "ctrutls" has the hook.
var (
	matrixClients = []string{"ctrutls", "go"}
	matrixServers = []string{"ctrutls", "go", "tlsproxy"}
	matrixGroups  = []string{prime653, prime761, prime1277, mlkem, x25519, p256}
	matrixModes   = []string{"full", "retry", "resume", "mtls", "h2"}
)

// cell is one combination: a client that is to agree with a server on a group,
// in a mode.
type cell struct{ client, server, group, mode string }

// Results of a cell.
const (
	negotiated = "yes"                    // the group, as the mode wants it
	refused    = "handshake_failure"      // alert: nothing in common
	notBuilt   = "not in this build"      // the client says so and exits
	noRetry    = "yes, share always sent" // crypto/tls leaves no way to a retry
)

// want is the rule that the matrix follows.
func (c cell) want() string {
	switch {
	case ours(c.group) && c.client == "go" && c.server == "go":
		return notBuilt
	case ours(c.group) && (c.client == "go" || c.server == "go"):
		return refused
	case c.mode == "retry" && c.client == "go" && c.group == mlkem:
		return noRetry
	}
	return negotiated
}

// TestMatrix runs every cell with both ends as processes. No cell is left out:
// what cannot work has to fail as cell.want says.
func TestMatrix(t *testing.T) {
	results := make(map[cell]string)
	for _, server := range matrixServers {
		for _, group := range matrixGroups {
			t.Run(server+"/"+group, func(t *testing.T) { matrixRows(t, server, group, results) })
		}
	}
	table := renderMatrix(results)
	t.Log("\n" + table)
	checkGolden(t, filepath.Join("testdata", "matrix.md"), table)
}

// matrixRows fills the cells of one server and group.
func matrixRows(t *testing.T, server, group string, results map[cell]string) {
	plain := matrixServer(t, server, group, false)
	asking := matrixServer(t, server, group, true)
	for _, client := range matrixClients {
		for _, mode := range matrixModes {
			c := cell{client, server, group, mode}
			e := plain
			if mode == "mtls" {
				e = asking
			}
			results[c] = c.run(t, e)
			if want := c.want(); results[c] != want {
				t.Errorf("%+v: %s, want %s", c, results[c], want)
			}
		}
	}
	plain.alive()
	asking.alive()
}

// matrixServer starts the server of some cells: one that insists on the group
// if it knows it, and on a client's certificate if asked to.
func matrixServer(t *testing.T, server, group string, mtls bool) *endpoint {
	if server == "tlsproxy" {
		o := proxyOptions{groups: []string{group}}
		if mtls {
			o.clientCA = pki.CA
		}
		return startProxy(t, o)
	}
	args := []string{"--alpn", "h2,http/1.1"}
	if mtls {
		args = append(args, "--client-auth", "require", "--client-ca", pki.CA)
	}
	if server == "go" {
		if !ours(group) {
			args = append(args, "--group", group)
		}
		return startServer(t, stockBuild, args...)
	}
	return startServer(t, hookServer, append(args, "--group", group)...)
}

// run makes the cell's connections and says what came of them.
func (c cell) run(t *testing.T, e *endpoint) string {
	t.Helper()
	d := dial(t, c.program(t), append([]string{e.address}, c.args()...)...)
	if d.exit == outcome.NoHook && len(d.connections) == 0 && strings.Contains(d.stderr, "gotls") {
		return notBuilt
	}
	last := d.last(t)
	var seen []serverHandshake
	if c.server != "tlsproxy" {
		for range d.connections {
			seen = append(seen, e.handshake())
		}
	}
	if last.Alert != nil && last.Group == nil && d.exit == outcome.AlertBase+outcome.HandshakeFailure {
		return refused
	}
	if fault := c.check(d, seen); fault != "" {
		return fault + "; client: " + last.String()
	}
	switch {
	case c.mode == "retry" && !last.HelloRetryRequest:
		return noRetry
	case c.mode == "mtls" && !last.CertificateRequested:
		return "the server asked for no certificate"
	}
	return negotiated
}

func (c cell) program(t *testing.T) string {
	if c.client == "go" {
		return program(t, stockBuild, "client")
	}
	return program(t, hookClient, "client")
}

// args is the client's command line after the address.
func (c cell) args() []string {
	args := []string{"--ca", pki.CA, "--server-name", "localhost", "--get", "/cell"}
	switch c.mode {
	case "resume":
		args = append(args, "--resume", "--count", "2")
	case "mtls":
		args = append(args, "--cert", pki.ClientCert, "--key", pki.ClientKey)
	case "h2":
		args = append(args, "--alpn", "h2,http/1.1")
	}
	if c.client == "go" && ours(c.group) && c.server != "go" {
		return args // what it offers by itself has to be refused
	}
	if c.mode == "retry" {
		return append(args, c.retryArgs()...)
	}
	return append(args, "--group", c.group)
}

// retryArgs has the client offer the group and send shares for others only. A
// stock client sends one for the first of its groups in crypto/tls's order, and
// with a post-quantum one also its classical half.
func (c cell) retryArgs() []string {
	if c.client == "go" {
		first := map[string]string{mlkem: x25519, x25519: "SecP256r1MLKEM768", p256: x25519}[c.group]
		return []string{"--group", strings.TrimPrefix(first+","+c.group, ",")}
	}
	switch c.group {
	case prime761:
		return []string{"--group", prime653 + "," + prime761, "--share", prime653}
	case x25519:
		return []string{"--group", prime761 + "," + p256 + "," + x25519, "--share", prime761 + "," + p256}
	case prime653, prime1277:
		return []string{"--group", prime761 + "," + c.group, "--share", prime761}
	}
	return []string{"--group", prime761 + "," + x25519 + "," + c.group, "--share", prime761 + "," + x25519}
}

// check says what is wrong with connections that did not fail as a whole; the
// empty string if they are what the mode is about. Both ends have to agree.
func (c cell) check(d dialed, seen []serverHandshake) string {
	for i, conn := range d.connections {
		resumed := c.mode == "resume" && i > 0
		if fault := c.checkEnd(&conn.Handshake, resumed); fault != "" {
			return "client: " + fault
		}
		if fault := c.checkRequest(conn); fault != "" {
			return fault
		}
		if seen == nil {
			continue
		}
		if fault := c.checkEnd(&seen[i].Handshake, resumed); fault != "" {
			return "server: " + fault
		}
		if conn.HelloRetryRequest != seen[i].HelloRetryRequest {
			return "the ends do not agree on whether there was a HelloRetryRequest"
		}
		if c.mode == "mtls" && seen[i].Peer != "interop client" {
			return fmt.Sprintf("the server saw the certificate of %q", seen[i].Peer)
		}
	}
	return ""
}

// alpn is the protocol that the ends have to agree on. Of the clients only curl
// speaks ALPN unless it is asked to.
func (c cell) alpn() string {
	switch {
	case c.mode == "h2":
		return "h2"
	case c.client == "curl":
		return "http/1.1"
	}
	return ""
}

func (c cell) checkEnd(h *outcome.Handshake, resumed bool) string {
	switch {
	case h.Exit != outcome.OK:
		return h.Error
	case h.Version != "TLS 1.3":
		return h.Version
	case h.Group == nil || *h.Group != (outcome.Group{Name: c.group, ID: ids[c.group]}):
		return fmt.Sprintf("group %v", h.Group)
	case h.Resumed != resumed:
		return fmt.Sprintf("resumed %v", h.Resumed)
	case h.HelloRetryRequest && c.mode != "retry":
		return "a HelloRetryRequest"
	case c.mode == "retry" && !h.HelloRetryRequest && c.want() != noRetry:
		return "no HelloRetryRequest"
	case h.ALPN != c.alpn():
		return fmt.Sprintf("ALPN %q", h.ALPN)
	}
	return ""
}

func (c cell) checkRequest(conn connection) string {
	proto := "HTTP/1.1"
	if c.mode == "h2" {
		proto = "HTTP/2.0"
	}
	switch {
	case conn.HTTP == nil || conn.HTTP.Status != 200:
		return fmt.Sprintf("request: %+v", conn.HTTP)
	case conn.HTTP.Proto != proto:
		return "request over " + conn.HTTP.Proto
	case !strings.Contains(conn.HTTP.Body, "/cell"):
		return fmt.Sprintf("request answered with %q", conn.HTTP.Body)
	}
	return ""
}

// renderMatrix writes the results as tables, one for each client and server.
func renderMatrix(results map[cell]string) string {
	var b strings.Builder
	b.WriteString("<!-- Made and checked by TestMatrix; go tool gotls test ./interop -interop.update rewrites it. -->\n")
	for _, client := range matrixClients {
		for _, server := range matrixServers {
			fmt.Fprintf(&b, "\nClient %s, server %s:\n\n", client, server)
			fmt.Fprintf(&b, "| group | full | HelloRetryRequest | resumption | client certificate | HTTP/2 |\n|%s\n",
				strings.Repeat("---|", 1+len(matrixModes)))
			for _, group := range matrixGroups {
				b.WriteString("| " + group + " |")
				for _, mode := range matrixModes {
					b.WriteString(" " + results[cell{client, server, group, mode}] + " |")
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

// checkGolden compares a table with its file, or rewrites that.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from the table above; -interop.update rewrites it", file)
	}
}
