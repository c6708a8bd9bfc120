package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// TestGroupsAndProtocols sends a real request with each group over each
// protocol, and looks at what the backend gets.
func TestGroupsAndProtocols(t *testing.T) {
	var seen *http.Request
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		seen = req
		w.Header().Set("Answer", "yes")
		hello(w, req)
	})
	for _, id := range groups.Default() {
		t.Run(groups.Name(id), func(t *testing.T) {
			forBoth(t, func(t *testing.T, http2 bool) {
				r.t = t
				client := r.client(http2, id)
				request, _ := http.NewRequest("GET", "https://front.example/a%2Fb//c?x=1;y=%zz", nil)
				request.Header = http.Header{
					"X-Forwarded-For": {"1.2.3.4"}, "X-Forwarded-Host": {"evil"}, "X-Forwarded-Proto": {"gopher"}, "Forwarded": {"for=evil"},
					"X_forwarded_for": {"1.2.3.4"}, "X-Forwarded_proto": {"gopher"}, "Under_score": {"kept"},
					"X-Real-Ip": {"1.2.3.4", "5.6.7.8"}, "X_Real-IP": {"1.2.3.4"}, "X.Real.Ip": {"1.2.3.4"}, "x~forwarded|for": {"1.2.3.4"}, "do.ts": {"kept"},
					"Via": {"1.0 earlier"}, "User-Agent": {""},
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode != 200 || string(body) != "hello" || response.Header.Get("Answer") != "yes" {
					t.Errorf("answer: %s %q %v", response.Status, body, response.Header)
				}
				if response.ProtoMajor != map[bool]int{false: 1, true: 2}[http2] {
					t.Errorf("protocol: %s", response.Proto)
				}
				if response.TLS.CurveID != id || response.TLS.Version != tls.VersionTLS13 {
					t.Errorf("group %v, version %x", response.TLS.CurveID, response.TLS.Version)
				}
				if seen.RequestURI != "/a%2Fb//c?x=1;y=%zz" || seen.Host != "front.example" || seen.Proto != "HTTP/1.1" {
					t.Errorf("the backend saw %s %s %s", seen.RequestURI, seen.Host, seen.Proto)
				}
				want := http.Header{
					"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"front.example"}, "X-Forwarded-Proto": {"https"},
					"X-Real-Ip": {"127.0.0.1"}, "Under_score": {"kept"}, "Do.ts": {"kept"},
					"Via": {"1.0 earlier", map[bool]string{false: "1.1 tlsproxy", true: "2.0 tlsproxy"}[http2]},
				}
				if !maps.EqualFunc(seen.Header, want, slices.Equal) {
					t.Errorf("the backend saw %v\nwant %v", seen.Header, want)
				}
			})
		})
	}
	if st := r.server.Stats(); len(st.Handshakes) != len(groups.Default()) || st.Failed != 0 {
		t.Errorf("stats: %+v", st)
	}
}

// TestAnswerAsItIs: an answer's header reaches the client as the backend has written it.
// A type that is not there is not guessed, and a date is there in any case.
func TestAnswerAsItIs(t *testing.T) {
	const upload = "<html><script>alert(1)</script>"
	r := newMemRig(t, nil, nil)
	for range 2 {
		go func() {
			c, err := r.back.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\nX-Answer: yes\r\n\r\n%s", len(upload), upload)
			}
		}()
	}
	forBoth(t, func(t *testing.T, http2 bool) {
		response, err := r.client(http2).Get("https://front.example/upload")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != upload {
			t.Errorf("%q, %v", body, err)
		}
		if response.Header.Get("Date") == "" {
			t.Error("no Date")
		}
		response.Header.Del("Date")
		if want := (http.Header{"Content-Length": {strconv.Itoa(len(upload))}, "X-Answer": {"yes"}}); !maps.EqualFunc(response.Header, want, slices.Equal) {
			t.Errorf("got %v, want %v", response.Header, want)
		}
	})
}

// TestNoContent: an answer without content has no length, whatever its backend says.
func TestNoContent(t *testing.T) {
	r := newRig(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\nContent-Length: 5\r\n\r\n")
			c.Close()
		}
	})
	forBoth(t, func(t *testing.T, http2 bool) {
		response, err := r.client(http2).Get("https://front.example/")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header["Content-Length"]; response.StatusCode != http.StatusNoContent || got != nil {
			t.Errorf("%s, Content-Length %v", response.Status, got)
		}
	})
}

// TestAccessLog expects a line a request.
func TestAccessLog(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Log.Requests = true }, hello)
	r.get(r.client(true, tls.X25519), "/%0Apath")
	line := r.log.wait("msg=request")
	for _, want := range []string{"level=INFO", "remote=127.0.0.1:", "proto=HTTP/2.0", "method=GET", "host=front.example",
		`path=/\x0apath `, "connection=1 ", "status=200", "bytes=5", "bytes_received=0", " duration=", "pool=default", "backend=127.0.0.1:", "backend_duration=",
		"sni=front.example", `version="TLS 1.3"`, "cipher=TLS_", "group=X25519 ", "resumed=false", "alpn=h2", "handshake="} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	for _, absent := range []string{"route=", "client_cert=", "kem_queue="} {
		if strings.Contains(line, absent) {
			t.Errorf("%s in %s", absent, line)
		}
	}
}

// TestAccessLogOfClients: a body, a route, a certificate and a resumed session are in
// the line, and requests over one connection have its number.
func TestAccessLogOfClients(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.Log.Requests = true
		h := host("front.example", requiring("a.pem"))
		h.Routes = []config.Route{{Path: "/up/", Pool: config.DefaultPool}}
		c.Hosts = []config.Host{h}
	}, func(w http.ResponseWriter, req *http.Request) { io.Copy(w, req.Body) })
	cert := authorityA.client(t, "cn:some one")
	client := r.client(false)
	policy := client.Transport.(*http.Transport).TLSClientConfig
	policy.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	policy.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, want := range []string{"connection=1 .* resumed=false", "connection=1 .* resumed=false", "connection=2 .* resumed=true"} {
		if strings.Contains(want, "=2") {
			client.CloseIdleConnections()
		}
		response, err := client.Post("https://front.example/up/x", "text/plain", strings.NewReader("four"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		line := r.log.wait("msg=request")
		want += `.* client_cert="CN=some one"`
		if !regexp.MustCompile(want).MatchString(line) || !strings.Contains(line, "bytes=4 bytes_received=4 ") || !strings.Contains(line, "route=/up/ pool=default") {
			t.Errorf("no %s in %s", want, line)
		}
		r.log.reset()
	}
}

// TestAccessLogOfATunnel: bytes of both directions are counted, those sent ahead too.
func TestAccessLogOfATunnel(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Log.Requests = true }, switching(func(c net.Conn, in *bufio.Reader) {
		io.ReadFull(in, make([]byte, 8))
		io.WriteString(c, "answer")
	}))
	tunnel, half := r.upgraded("ahead")
	io.WriteString(tunnel, "and")
	half.CloseWrite()
	io.Copy(io.Discard, tunnel)
	if line := r.log.wait("msg=request"); !strings.Contains(line, "status=101 bytes=6 bytes_received=8 ") {
		t.Error(line)
	}
}

// raw sends bytes over TLS and returns the first answer.
func (r *rig) raw(request string) (*http.Response, string) {
	r.t.Helper()
	c := r.connect()
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatalf("%q: %v", request, err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response, string(body)
}

// TestSmuggling sends requests whose length two servers could see differently.
// The backend must get one request, framed anew, or none.
func TestSmuggling(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %s CL=%d TE=%v %q", req.Method, req.RequestURI, req.ContentLength, req.TransferEncoding, body))
	})
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, test := range []struct {
		name, request string
		status        int
		want          string
	}{
		{"both lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
			200, `POST / CL=-1 TE=[chunked] "hello"`},
		{"two lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello", 400, ""},
		{"length with a sign", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello", 400, ""},
		{"unknown coding", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled, 501, ""},
		{"coding twice", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, 501, ""},
		{"coding with a vertical tab", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n" + smuggled, 400, ""},
		{"space before the colon", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello", 400, ""},
		{"line break in a name", "GET / HTTP/1.1\r\nHost: h\r\nA\rB: c\r\n\r\n", 400, ""},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, ""},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, ""},
		{"chunk size with a sign", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", 400, ""},
		{"connect", "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n", 501, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.t = t
			mu.Lock()
			seen = nil
			mu.Unlock()
			response, _ := r.raw(test.request)
			mu.Lock()
			defer mu.Unlock()
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			if got := strings.Join(seen, "; "); test.want != "" && got != test.want || strings.Contains(got, "smuggled") {
				t.Errorf("the backend saw %s, want %s", got, test.want)
			}
		})
	}
}

// TestHopByHop: what concerns one connection stays on it, and a client cannot
// have the proxy's own headers removed by calling them hop-by-hop.
func TestHopByHop(t *testing.T) {
	var seen http.Header
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		seen = req.Header
		h := w.Header()
		h["Connection"] = []string{"X-Private"}
		h["X-Private"] = []string{"backend"}
		h["Keep-Alive"] = []string{"timeout=5"}
		h["Proxy-Authenticate"] = []string{"Basic"}
		h["X-Public"] = []string{"yes"}
	})
	response, _ := r.raw("GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Private, X-Forwarded-For, X-Real-IP, Via, close\r\nX-Private: 1\r\n" +
		"Keep-Alive: 1\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nX-Public: 1\r\n\r\n")
	for _, name := range []string{"X-Private", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Connection"} {
		if v, ok := seen[name]; ok {
			t.Errorf("the backend saw %s: %v", name, v)
		}
	}
	for _, name := range []string{"X-Public", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if _, ok := seen[name]; !ok {
			t.Errorf("the backend did not see %s", name)
		}
	}
	for _, name := range []string{"X-Private", "Keep-Alive", "Proxy-Authenticate"} {
		if v, ok := response.Header[name]; ok {
			t.Errorf("the client saw %s: %v", name, v)
		}
	}
	if response.Header.Get("X-Public") != "yes" {
		t.Error("the client did not see X-Public")
	}
}

// TestHeaderLimit: headers that are too large are refused.
func TestHeaderLimit(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, func(c *config.Config) { c.Limits.HeaderBytes = 4096 }, hello)
		request, _ := http.NewRequest("GET", "https://front.example/", nil)
		// net/http is generous by 4096 bytes in HTTP/1.1; in HTTP/2 it answers a
		// little too much and breaks with a client that sends much too much.
		for n := range map[bool]int{false: 20, true: 10}[http2] {
			request.Header.Set(fmt.Sprint("Large-", n), strings.Repeat("x", 450))
		}
		client := r.client(http2)
		response, err := client.Do(request)
		if http2 && err != nil { // the client itself heeds the limit that HTTP/2 tells it
			if !strings.Contains(err.Error(), "request header list larger than peer's advertised limit") {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		} else {
			response.Body.Close()
			if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("status %d", response.StatusCode)
			}
		}
		if status, _ := r.get(client, "/"); status != 200 {
			t.Errorf("afterwards: status %d", status)
		}
	})
}

// TestRequestLimit: requests that are too many are refused, and those after.
func TestRequestLimit(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	r := newRig(t, func(c *config.Config) { c.Limits.Requests = 1 }, func(w http.ResponseWriter, req *http.Request) {
		entered <- true
		<-leave
	})
	client := r.client(true)
	first := make(chan int)
	go func() {
		status, _ := r.get(client, "/")
		first <- status
	}()
	<-entered
	response, err := client.Get("https://front.example/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" || string(body) != "503 Service Unavailable\nToo many requests are under way.\n" {
		t.Errorf("second request: %s %q", response.Status, body)
	}
	leave <- true
	if status := <-first; status != 200 {
		t.Errorf("first request: %d", status)
	}
	go func() { <-entered; leave <- true }()
	if status, _ := r.get(client, "/"); status != 200 {
		t.Errorf("third request: %d", status)
	}
}

// TestClientAbort: a client that goes away ends the backend's request.
func TestClientAbort(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		entered, ended := make(chan bool), make(chan error, 1)
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			entered <- true
			<-req.Context().Done()
			ended <- req.Context().Err()
		})
		ctx, cancel := context.WithCancel(context.Background())
		request, _ := http.NewRequestWithContext(ctx, "GET", "https://front.example/", nil)
		result := make(chan error)
		go func() {
			_, err := r.client(http2).Do(request)
			result <- err
		}()
		<-entered
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("client: %v", err)
		}
		<-ended
		r.log.wait("aborted=true")
		if got := r.log.String(); strings.Contains(got, "no answer from a backend") {
			t.Errorf("the backend was blamed: %s", got)
		}
	})
}

// TestBrokenAnswer: a backend that breaks off in mid-answer must not look like
// one that finished.
func TestBrokenAnswer(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		response, err := r.client(http2).Get("https://front.example/")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("the client read %q as if it were whole", body)
		}
		line := r.log.wait("msg=\"an answer broke off\"")
		for _, want := range []string{"level=WARN", " method=GET host=front.example path=/ ", " backend=127.0.0.1:", " bytes=4 ", "unexpected EOF"} {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
		if got := r.log.String(); strings.Contains(got, "httputil") {
			t.Errorf("log: %s", got)
		}
	})
}

// TestBackendDownAndBack: 503 with a log line, 504 if it is silent, and an
// answer once it is well again.
func TestBackendDownAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		r := newMemRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			if silent.Load() {
				<-req.Context().Done()
			}
			hello(w, req)
		})
		client := r.client(false, tls.X25519)
		expect := func(status int, body string) {
			t.Helper()
			if gotStatus, gotBody := r.get(client, "/path"); gotStatus != status || gotBody != body {
				t.Fatalf("got %d %q, want %d %q", gotStatus, gotBody, status, body)
			}
		}
		expect(200, "hello")
		r.pool.Close() // no idle connection is left
		r.back.SetDown(true)
		for range 5 {
			expect(503, "503 Service Unavailable\nNo backend can be reached at the moment.\n")
		}
		response, err := client.Get("https://front.example/")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Retry-After"); got != "5" { // backends.eject_for
			t.Errorf("Retry-After: %q", got)
		}
		for _, want := range []string{"level=WARN", "method=GET", "host=front.example", "path=/path", "status=503",
			`err="backend backend.example: memnet: connection refused"`} {
			if line := r.log.wait("no answer from a backend"); !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
		r.log.wait("backend ejected")
		r.back.SetDown(false)
		expect(200, "hello")
		r.log.wait("backend is back")
		r.log.reset()
		silent.Store(true)
		expect(504, "504 Gateway Timeout\nThe backend did not answer in time.\n")
		if line := r.log.wait("no answer from a backend"); !strings.Contains(line, "status=504") {
			t.Errorf("log: %s", line)
		}
		silent.Store(false)
		expect(200, "hello")
	})
}

// TestTrailers passes those of requests and of answers.
func TestTrailers(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		var got http.Header
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			io.Copy(io.Discard, req.Body)
			got = req.Trailer
			w.Header().Set("Trailer", "After")
			io.WriteString(w, "body")
			w.Header().Set("After", "1")
			w.Header().Set(http.TrailerPrefix+"Unannounced", "2")
		})
		request, _ := http.NewRequest("POST", "https://front.example/", io.MultiReader(strings.NewReader("x")))
		request.Trailer = http.Header{"Checksum": {"abc"}, "X-Forwarded-For": {"1.2.3.4"}, "X_real-Ip": {"1.2.3.4"}}
		response, err := r.client(http2).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if !maps.EqualFunc(got, http.Header{"Checksum": {"abc"}}, slices.Equal) {
			t.Errorf("the backend got %v", got)
		}
		if response.Trailer.Get("After") != "1" || response.Trailer.Get("Unannounced") != "2" {
			t.Errorf("the client got %v", response.Trailer)
		}
	})
}

// TestUnannouncedTrailers: what follows the body where another trailer was announced is
// passed on, but for what the proxy vouches for.
func TestUnannouncedTrailers(t *testing.T) {
	var got http.Header
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		io.Copy(w, req.Body)
		got = req.Trailer
	})
	if _, body := r.raw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n1\r\nx\r\n0\r\nA: 1\r\nB: 2\r\nX-Real-IP: 1.2.3.4\r\nX.Forwarded.For: 1.2.3.4\r\n\r\n"); body != "x" {
		t.Errorf("body %q", body)
	}
	if !maps.EqualFunc(got, http.Header{"A": {"1"}, "B": {"2"}}, slices.Equal) {
		t.Errorf("the backend got %v", got)
	}
}

// TestInformational passes 103 and 100 on.
func TestInformational(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			body, _ := io.ReadAll(req.Body)
			w.Write(body)
		})
		var codes []int
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { codes = append(codes, code); return nil },
		})
		request, _ := http.NewRequestWithContext(ctx, "POST", "https://front.example/", strings.NewReader("upload"))
		response, err := r.client(http2).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != "upload" || !slices.Contains(codes, 103) {
			t.Errorf("%q after %v", body, codes)
		}
	})
}

// TestExpectContinue: the body is sent only after the backend wants it.
func TestExpectContinue(t *testing.T) {
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		w.Write(body)
	})
	c := r.connect()
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n")
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != 100 {
		t.Fatalf("%v %v", response, err)
	}
	io.WriteString(c, "upload")
	for response.StatusCode == 100 { // net/http may send its own and the backend's
		if response, err = http.ReadResponse(in, nil); err != nil {
			t.Fatal(err)
		}
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "upload" {
		t.Errorf("%q", body)
	}
}

// TestRefusedRequests: a client whose requests cannot be passed on is told so,
// and does the others no harm.
func TestRefusedRequests(t *testing.T) {
	r := newRig(t, nil, hello)
	for range 5 {
		response, body := r.raw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: a b\r\n\r\n0\r\n\r\n")
		if response.StatusCode != 400 || body != "400 Bad Request\nThe request is not valid HTTP.\n" {
			t.Fatalf("%s %q", response.Status, body)
		}
	}
	if got := r.log.String(); strings.Contains(got, "ejected") || strings.Contains(got, "level=WARN") {
		t.Errorf("the backend was blamed: %s", got)
	}
}

// TestHostIsRequired: a request that names no host, which HTTP/1.0 allows, does
// not reach a backend under the backend's own name.
func TestHostIsRequired(t *testing.T) {
	seen := make(chan string, 10)
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) { seen <- req.Host })
	for request, want := range map[string]int{
		"GET / HTTP/1.1\r\n\r\n":                400,
		"GET / HTTP/1.1\r\nHost:\r\n\r\n":       400,
		"GET / HTTP/1.0\r\n\r\n":                400,
		"GET / HTTP/1.0\r\nHost: a.b:7\r\n\r\n": 200,
		"GET / HTTP/1.1\r\nHost: a.b:7\r\n\r\n": 200,
		"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n": 200, // answered here, as the example says
	} {
		if response, body := r.raw(request); response.StatusCode != want {
			t.Errorf("%q: %s %q", request, response.Status, body)
		}
	}
	close(seen)
	n := 0
	for host := range seen {
		if n++; host != "a.b:7" {
			t.Errorf("a backend was asked for %q", host)
		}
	}
	if n != 2 {
		t.Errorf("%d requests reached the backend", n)
	}
}
