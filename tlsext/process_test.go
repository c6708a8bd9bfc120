package tlsext_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// children run in processes of their own: what they need is set for a whole
// process. Each prints a childReport.
var children = map[string]func(){
	"registered": func() {
		p, err := provider.Open(provider.Config{})
		if err != nil {
			panic(err)
		}
		defer p.Close()
		if err := tlsext.Register(p); err != nil {
			panic(err)
		}
		reportGroups()
	},
	"unregistered": reportGroups,
}

// childReport tells of a handshake between two sides whose list is ours, then
// childGroups.
type childReport struct {
	Offered              []tls.CurveID
	Server, Client       tls.CurveID
	ServerErr, ClientErr string
	OursAlone            string // the error of a client with a list of ours alone
}

var childGroups = ids(p256mlkm, p256)

func reportGroups() {
	var report childReport
	list := append(ids(ctru761), childGroups...)
	server, client := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		config := serverConfig(list...)
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			report.Offered = hello.SupportedCurves
			return nil, nil
		}
		c := tls.Server(server, config)
		if err := c.Handshake(); err != nil {
			report.ServerErr = err.Error()
		}
		report.Server = c.ConnectionState().CurveID
	}()
	c := tls.Client(client, clientConfig(list...))
	if err := c.Handshake(); err != nil {
		report.ClientErr = err.Error()
	}
	report.Client = c.ConnectionState().CurveID
	client.Close()
	<-done
	if err := tls.Client(server, clientConfig(ctru761)).Handshake(); err != nil {
		report.OursAlone = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		panic(err)
	}
}

// In FIPS 140-3 mode, and before Register, the groups do not exist.
func TestGroupsThatAreNotThere(t *testing.T) {
	for _, tc := range []struct{ name, child, godebug string }{
		{"fips140=on", "registered", "fips140=on"},
		{"fips140=only", "registered", "fips140=only"},
		{"unregistered", "unregistered", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runChild(t, tc.child, tc.godebug)
			if got.ServerErr != "" || got.ClientErr != "" {
				t.Fatalf("%+v", got)
			}
			if want := childGroups[0]; got.Server != want || got.Client != want {
				t.Errorf("negotiated %v and %v, want %v", got.Server, got.Client, want)
			}
			if !slices.Equal(got.Offered, childGroups) {
				t.Errorf("the client offered %v, want %v", got.Offered, childGroups)
			}
			if !strings.HasPrefix(got.OursAlone, "tls: no supported ") {
				t.Errorf("a client with nothing but our group ended with %q", got.OursAlone)
			}
		})
	}
	// The same child without any of that: it is not the child that drops them.
	t.Run("neither", func(t *testing.T) {
		if got := runChild(t, "registered", ""); got.Server != ctru761 || got.Client != ctru761 || got.ServerErr != "" || got.ClientErr != "" {
			t.Errorf("%+v", got)
		}
	})
}

func runChild(t *testing.T, child, godebug string) childReport {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+child, "GODEBUG="+godebug)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var got childReport
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return got
}
