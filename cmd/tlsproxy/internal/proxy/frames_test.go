package proxy

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawBackend answers each request that it can find the end of, and tells what the bytes
// of the first were.
func (r *rig) rawBackend(saw chan<- string) {
	for {
		c, err := r.back.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var all bytes.Buffer
			in := bufio.NewReader(io.TeeReader(c, &all))
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == "\r\n" {
					break
				}
			}
			saw <- all.String()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		}()
	}
}

// field is one of a request's over HTTP/2, pseudo-header fields included.
type field struct{ name, value string }

// askHTTP2 sends a request as its fields are, and returns the status of the answer; 0: the
// stream was reset, or the connection ended.
func (r *rig) askHTTP2(fields []field) int {
	r.t.Helper()
	policy := r.tlsConfig()
	policy.NextProtos = []string{"h2"}
	c := r.connectWith(policy)
	defer c.NetConn().Close()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	framer := http2.NewFramer(c, c)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go func() {
		io.WriteString(c, http2.ClientPreface)
		framer.WriteSettings()
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	}()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return 0
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			return 0
		case *http2.MetaHeadersFrame:
			status, _ := strconv.Atoi(frame.PseudoValue("status"))
			return status
		}
	}
}

// TestBytesAhead: clients of one HTTP/2 connection may send as much as it is said of
// bodies that nobody takes, be it in one request or in several.
func TestBytesAhead(t *testing.T) {
	r := newMemRig(t, nil, nil)
	t.Cleanup(func() { r.back.Close() })
	policy := r.tlsConfig()
	policy.NextProtos = []string{"h2"}
	c := r.connectWith(policy)
	framer := http2.NewFramer(c, c)
	go func() {
		io.WriteString(c, http2.ClientPreface)
		framer.WriteSettings()
	}()
	var stream, whole uint32
	for stream == 0 || whole == 0 {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				stream, _ = frame.Value(http2.SettingInitialWindowSize)
			}
		case *http2.WindowUpdateFrame:
			const initial = 1<<16 - 1 // RFC 9113, section 6.9.2
			whole = initial + frame.Increment
		}
	}
	if stream != maxAheadBytes || whole != maxAheadBytes {
		t.Errorf("%d bytes for a request, %d for all; want %d", stream, whole, maxAheadBytes)
	}
}

// TestSmugglingFromHTTP2 sends what HTTP/2 can carry and HTTP/1.1 would say in another
// way. The backend must get one request, whose line and Host are those that were asked
// for, or none.
func TestSmugglingFromHTTP2(t *testing.T) {
	r := newMemRig(t, nil, nil)
	saw := make(chan string, 1)
	go r.rawBackend(saw)
	t.Cleanup(func() { r.back.Close() })
	const none = ""
	with := func(method, authority, path string, more ...field) []field {
		return append([]field{{":method", method}, {":scheme", "https"}, {":authority", authority}, {":path", path}}, more...)
	}
	get := func(path string, more ...field) []field { return with("GET", "front.example", path, more...) }
	plain := "GET / HTTP/1.1\r\nHost: front.example\r\n"
	for _, test := range []struct {
		name   string
		fields []field
		status int // 0: the stream is reset
		want   string
	}{
		{"nothing", get("/"), 200, plain},
		{"end of the line in a query", get("/x?a HTTP/1.1"), 400, none},
		{"space in a path", get("/x y"), 400, none},
		{"line break in a path", get("/x\r\nA: b"), 0, none},
		{"tab in a query", get("/x?a\tb"), 0, none},
		{"line in a method", with("GET /x HTTP/1.1", "front.example", "/"), 400, none},
		{"space in a host", with("GET", "front.example x", "/"), 400, none},
		{"path in a host", with("GET", "front.example/x", "/"), 400, none},
		{"no host", with("GET", "", "/"), 400, none},
		{"another host", get("/", field{"host", "other.example"}), 200, plain},
		{"host by its field", []field{{":method", "GET"}, {":scheme", "https"}, {":path", "/"}, {"host", "front.example"}}, 200, plain},
		{"another target", get("http://other.example/"), 200, plain},
		{"line break in a value", get("/", field{"a", "b\r\nc: d"}), 0, none},
		{"colon in a name", get("/", field{"a: b", "c"}), 0, none},
		{"coding", get("/", field{"transfer-encoding", "chunked"}), 400, none},
		{"hop-by-hop", get("/", field{"connection", "x-forwarded-for"}), 400, none},
		{"upgrade", get("/", field{"upgrade", "websocket"}), 400, none},
		{"length without a body", get("/", field{"content-length", "5"}), 200, plain},
		{"two lengths", get("/", field{"content-length", "0"}, field{"content-length", "5"}), 200, plain},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.t = t
			status := r.askHTTP2(test.fields)
			got := none
			select {
			case got = <-saw:
			default:
			}
			if status != test.status || !strings.HasPrefix(got, test.want) || got != none && test.want == none {
				t.Errorf("status %d, want %d; the backend saw %q", status, test.status, got)
			}
			if strings.Contains(strings.ToLower(got), "content-length") || strings.Contains(got, "other.example") {
				t.Errorf("the backend saw %q", got)
			}
		})
	}
}
