package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that was received. Attributes are written as text.
type Span struct {
	*otlp.Span
	Trace, ID, Parent string // hexadecimal; Parent "": none
	Attributes        map[string]string
	Resource          map[string]string
}

// Receiver takes spans.
type Receiver struct {
	URL string // of its traces

	mu      sync.Mutex
	status  int // that requests are answered with; 0: they are not
	headers []http.Header
	spans   []Span
	more    *sync.Cond
}

// Start starts a Receiver for the length of a test.
func Start(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{status: http.StatusOK}
	r.more = sync.NewCond(&r.mu)
	server := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(server.Close)
	r.URL = server.URL + "/v1/traces"
	return r
}

// Answer has requests from now on answered with a status; but for 200 they are not
// taken. With 0 they wait until the client gives up.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Headers are those of all requests so far.
func (r *Receiver) Headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]http.Header{}, r.headers...)
}

// Spans are all that were received so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span{}, r.spans...)
}

// Wait returns all spans once there are n of them.
func (r *Receiver) Wait(n int) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.spans) < n {
		r.more.Wait()
	}
	return append([]Span{}, r.spans...)
}

func (r *Receiver) take(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.headers = append(r.headers, q.Header)
	status := r.status
	r.mu.Unlock()
	switch status {
	case http.StatusOK:
	case 0:
		io.Copy(io.Discard, q.Body) // only then is the client's leaving noticed
		<-q.Context().Done()
		return
	default:
		w.WriteHeader(status)
		return
	}
	spans, err := decode(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.spans = append(r.spans, spans...)
	r.more.Broadcast()
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

func decode(q *http.Request) (all []Span, err error) {
	if q.Method != http.MethodPost || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
		return nil, fmt.Errorf("%s %s with %q", q.Method, q.URL.Path, q.Header.Get("Content-Type"))
	}
	body := q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &request); err != nil {
		return nil, err
	}
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				all = append(all, Span{s, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId),
					texts(s.Attributes), texts(of.Resource.GetAttributes())})
			}
		}
	}
	return all, nil
}

func texts(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			all[a.Key] = fmt.Sprint(v.BoolValue)
		default:
			all[a.Key] = a.Value.String()
		}
	}
	return all
}
