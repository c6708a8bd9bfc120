//go:build sim && !nogpu

package service

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing/tracetest"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// TestSignOnSimulatedGPU has the certificate's key sign on a GPU: the first
// handshake makes the GPU know it. From then on a line of the access log, and a trace,
// say how long a signature waited for its batch and how long that took.
func TestSignOnSimulatedGPU(t *testing.T) {
	t.Setenv("CTRUTLS_SIM_CHECKS", "global")
	library, err := simctl.Library()
	if err != nil {
		t.Fatal(err)
	}
	log, receiver := new(logtest.Buffer), tracetest.Start(t)
	s, err := plan(t, func(c *config.Config) {
		c.Log.Requests = true
		c.Tracing.Endpoint, c.Tracing.Ratio = config.TracesURL(receiver.URL), 1
		c.Provider.Engine = config.EngineGPU
		c.Provider.GPU.Library, c.Provider.GPU.Sign = library, true
		c.Provider.GPU.MaxWait, c.Provider.GPU.Hang = config.Duration(time.Minute), config.Duration(5*time.Minute)
	}).Start(slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.options(s.current(), s.current().open); err != nil || o.GPUs != 1 {
		t.Errorf("the proxy is told of %d GPUs (%v)", o.GPUs, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, nil) }()
	for until := time.Now().Add(time.Minute); s.KeyExchanges().Signatures.ByGPU < 3; {
		if time.Now().After(until) {
			t.Fatal("the GPU signs nothing")
		}
		c, err := tls.Dial("tcp", s.Addresses()[0].String(), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}}
	response, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, "https://"+s.Addresses()[0].String()+"/", nil))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	transport.CloseIdleConnections()
	var line struct {
		Handshake int64
		Queue     *int64 `json:"sign_queue"`
		Batch     *int64 `json:"sign_batch"`
	}
	if err := json.Unmarshal([]byte(log.Find(`(\{.*"msg":"request".*\})`)), &line); err != nil {
		t.Fatal(err)
	}
	if line.Queue == nil || line.Batch == nil || *line.Queue < 0 || *line.Batch <= 0 || *line.Queue+*line.Batch > line.Handshake {
		t.Errorf("%+v in %s", line, log)
	}
	s.documented(t, "tlsproxy_gpu_info", "tlsproxy_gpu_state", "tlsproxy_gpu_batch_size", "tlsproxy_gpu_batch_duration_seconds", "tlsproxy_gpu_operations_in_flight",
		"tlsproxy_gpu_fallbacks_total", "tlsproxy_gpu_memory_bytes")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	spans, batches := map[string]tracetest.Span{}, 0
	for _, s := range receiver.Spans() {
		spans[s.ID] = s
	}
	for _, s := range spans {
		if s.Name == tracing.SignBatchSpan {
			batches++
			signature := spans[s.Parent]
			within(t, s, signature)
			within(t, signature, spans[signature.Parent])
			if signature.Name != tracing.SignatureSpan || spans[signature.Parent].Name != tracing.HandshakeSpan {
				t.Errorf("%v is in %v", s, signature)
			}
		}
	}
	if batches == 0 {
		t.Errorf("no batch is in %v", spans)
	}
	if st := s.KeyExchanges(); st.Signatures.Failures != 0 || st.GPU.Mismatches != 0 {
		t.Errorf("%+v, %+v", st.Signatures, st.GPU)
	}
}
