package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// h2cRig is a rig whose backend is spoken to in HTTP/2.
func h2cRig(t *testing.T, handler http.HandlerFunc) *rig {
	return newRig(t, func(c *config.Config) { c.Backends.Protocol = config.BackendH2C }, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the backend is spoken to in %s", r.Proto)
		}
		handler(w, r)
	})
}

// TestEventsOverHTTP2: each arrives before the backend makes the next.
func TestEventsOverHTTP2(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		next := make(chan bool)
		r := h2cRig(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for n := range 5 {
				fmt.Fprintf(w, "data: %d\n", n)
				http.NewResponseController(w).Flush()
				<-next
			}
		})
		response, err := r.client(http2).Get("https://front.example/")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		in := bufio.NewReader(response.Body)
		for n := range 5 {
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", n) {
				t.Fatalf("%q, %v", line, err)
			}
			next <- true
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Error(err)
		}
	})
}

// TestBothDirectionsOverHTTP2: a conversation in which each piece of a request
// follows a piece of its answer, as gRPC has them, with trailers at both ends.
func TestBothDirectionsOverHTTP2(t *testing.T) {
	trailer := make(chan http.Header, 1)
	r := h2cRig(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Te") != "trailers" {
			t.Errorf("the backend saw %v", req.Header)
		}
		buf := make([]byte, 7)
		for {
			n, err := io.ReadFull(req.Body, buf)
			w.Write(buf[:n])
			http.NewResponseController(w).Flush()
			if err != nil {
				break
			}
		}
		trailer <- req.Trailer
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	body, pieces := io.Pipe()
	request, _ := http.NewRequest(http.MethodPost, "https://front.example/", body)
	request.Header.Set("Te", "trailers")
	request.Trailer = http.Header{"Checksum": {"abc"}}
	go io.WriteString(pieces, "piece 0")
	response, err := r.client(true).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	buf := make([]byte, 7)
	for n := range 5 {
		if _, err := io.ReadFull(response.Body, buf); err != nil || string(buf) != fmt.Sprint("piece ", n) {
			t.Fatalf("%q, %v", buf, err)
		}
		if n < 4 {
			fmt.Fprint(pieces, "piece ", n+1)
		}
	}
	pieces.Close()
	if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if got := <-trailer; got.Get("Checksum") != "abc" || response.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("trailers %v and %v", got, response.Trailer)
	}
}

// TestInformationalOverHTTP2 passes 103 on.
func TestInformationalOverHTTP2(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := h2cRig(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			io.Copy(w, req.Body)
		})
		var codes []int
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { codes = append(codes, code); return nil },
		})
		request, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://front.example/", strings.NewReader("upload"))
		response, err := r.client(http2).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, _ := io.ReadAll(response.Body); string(body) != "upload" || !slices.Contains(codes, 103) {
			t.Errorf("%q after %v", body, codes)
		}
	})
}

// TestEndsOverHTTP2: a client that goes away ends the backend's stream and blames
// nobody, and a backend that breaks off does not look like one that finished.
func TestEndsOverHTTP2(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		entered, ended := make(chan bool), make(chan error, 1)
		r := h2cRig(t, func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			if req.URL.Path == "/broken" {
				panic(http.ErrAbortHandler)
			}
			entered <- true
			<-req.Context().Done()
			ended <- req.Context().Err()
		})
		client := r.client(http2)
		ctx, cancel := context.WithCancel(context.Background())
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://front.example/", nil)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		<-entered
		cancel()
		if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("client: %v", err)
		}
		<-ended
		r.log.wait("msg=request")
		if got := r.log.String(); strings.Contains(got, "level=WARN") || strings.Contains(got, "ReverseProxy") {
			t.Errorf("somebody was blamed: %s", got)
		}
		if response, err = client.Get("https://front.example/broken"); err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("the client read %q as if it were whole", body)
		}
	})
}

// TestUpgradeOverHTTP2: a backend that speaks HTTP/2 only gets a plain request.
func TestUpgradeOverHTTP2(t *testing.T) {
	r := h2cRig(t, func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "%q %q", req.Header["Upgrade"], req.Header["Connection"])
	})
	if response, body := r.raw(upgrade); response.StatusCode != 200 || body != "[] []" {
		t.Errorf("%s %s", response.Status, body)
	}
}
