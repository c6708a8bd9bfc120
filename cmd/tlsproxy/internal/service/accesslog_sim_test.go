//go:build sim && !nogpu

package service

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing/tracetest"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	"github.com/ctrutls/ctrutls/tlsext"
)

// TestKeyExchangesToldOnSimulatedGPU: a line of the access log, and a trace, say how
// long the key exchange of a connection waited for a batch and how long that took,
// which is no more than the handshake; with another group they say nothing of it.
func TestKeyExchangesToldOnSimulatedGPU(t *testing.T) {
	t.Setenv("CTRUTLS_SIM_CHECKS", "global")
	library, err := simctl.Library()
	if err != nil {
		t.Fatal(err)
	}
	log, receiver := new(logtest.Buffer), tracetest.Start(t)
	s, err := plan(t, func(c *config.Config) {
		c.Provider.Engine = config.EngineGPU
		c.Provider.GPU.Library = library
		c.Provider.GPU.MaxWait, c.Provider.GPU.Hang = config.Duration(time.Minute), config.Duration(5*time.Minute)
		c.TLS.Groups = []config.Group{config.Group(tlsext.X25519CTRUPrime761), config.Group(tls.X25519)}
		c.Log.Requests = true
		c.Tracing.Endpoint, c.Tracing.Ratio = config.TracesURL(receiver.URL), 1
	}).Start(slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, nil) }()
	for _, group := range []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{group}}}
		response, err := (&http.Client{Transport: transport}).Get("https://" + s.Addresses()[0].String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		transport.CloseIdleConnections()
		var line struct {
			Group     string
			Handshake int64
			Queue     *int64 `json:"kem_queue"`
			Batch     *int64 `json:"kem_batch"`
		}
		if err := json.Unmarshal([]byte(log.Find(`(\{.*"msg":"request".*"group":"`+tlsext.GroupName(group)+`".*\})`)), &line); err != nil {
			t.Fatal(err)
		}
		switch {
		case group == tls.X25519:
			if line.Queue != nil || line.Batch != nil {
				t.Errorf("%s: %+v", log, line)
			}
		case line.Queue == nil || line.Batch == nil || *line.Queue < 0 || *line.Batch <= 0 || *line.Queue+*line.Batch > line.Handshake:
			t.Errorf("%s: %+v", log, line)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	spans := map[string][]tracetest.Span{}
	for _, s := range receiver.Spans() {
		spans[s.Name] = append(spans[s.Name], s)
	}
	handshakes, exchanges, batches := spans[tracing.HandshakeSpan], spans[tracing.KeyExchangeSpan], spans[tracing.BatchSpan]
	if len(handshakes) != 2 || len(exchanges) != 1 || len(batches) != 1 {
		t.Fatalf("%v", spans)
	}
	within(t, exchanges[0], handshakes[0])
	within(t, batches[0], exchanges[0])
}

// within expects a span to be a part of another.
func within(t *testing.T, s, outer tracetest.Span) {
	t.Helper()
	if s.Parent != outer.ID || s.StartTimeUnixNano < outer.StartTimeUnixNano || s.EndTimeUnixNano > outer.EndTimeUnixNano || s.EndTimeUnixNano <= s.StartTimeUnixNano {
		t.Errorf("%v is not within %v", s, outer)
	}
}
