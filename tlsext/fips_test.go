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

// fipsReport is what fipsChild prints.
type fipsReport struct {
	Offered    []tls.CurveID
	Server     tls.CurveID
	Client     tls.CurveID
	OursAlone  string // the error of a client whose list names nothing else
	ServerErr  string
	ClientErr  string
	Registered string
}

// fipsChild makes a handshake in a process of its own, whose GODEBUG turns the
// FIPS 140-3 mode on.
func fipsChild() {
	var report fipsReport
	p, err := provider.Open(provider.Config{})
	if err != nil {
		panic(err)
	}
	if err := tlsext.Register(p); err != nil {
		report.Registered = err.Error()
	}
	server, client := net.Pipe()
	list := ids(ctru761, p256mlkm, p256)
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

// In FIPS 140-3 mode the groups do not exist.
func TestFIPS(t *testing.T) {
	for _, mode := range []string{"on", "only"} {
		t.Run(mode, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"=fips", "GODEBUG=fips140="+mode)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var got fipsReport
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if got.Registered != "" || got.ServerErr != "" || got.ClientErr != "" {
				t.Fatalf("%+v", got)
			}
			if got.Server != p256mlkm || got.Client != p256mlkm {
				t.Errorf("negotiated %v and %v, want %v", got.Server, got.Client, p256mlkm)
			}
			if want := ids(p256mlkm, p256); !slices.Equal(got.Offered, want) {
				t.Errorf("the client offered %v, want %v", got.Offered, want)
			}
			if !strings.HasPrefix(got.OursAlone, "tls: no supported ") {
				t.Errorf("a client with nothing but our group ended with %q", got.OursAlone)
			}
		})
	}
}
