package tlsext_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// net/http gets the group on both sides, HTTP/2 and ReverseProxy included.
func TestHTTP2(t *testing.T) {
	list := ids(ctru761, mlkem768, x25519)
	backend := startHTTP2(t, serverConfig(list...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s by %v", r.Proto, r.TLS.CurveID)
	}))
	target, err := url.Parse(backend)
	if err != nil {
		t.Fatal(err)
	}
	proxy := startHTTP2(t, serverConfig(list...), &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: http2Transport(t, clientConfig(list...)),
	})
	for name, address := range map[string]string{"server": backend, "proxy": proxy} {
		t.Run(name, func(t *testing.T) {
			client := http.Client{Transport: http2Transport(t, clientConfig(list...))}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if want := "HTTP/2.0 by X25519CTRUPrime761"; string(body) != want {
				t.Errorf("the backend says %q, want %q", body, want)
			}
			if response.ProtoMajor != 2 || response.TLS.CurveID != ctru761 {
				t.Errorf("the client speaks %s by %v", response.Proto, response.TLS.CurveID)
			}
		})
	}
}

func startHTTP2(t *testing.T, config *tls.Config, handler http.Handler) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2, s.TLS = true, config
	s.Config.ErrorLog = log.New(t.Output(), "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func http2Transport(t *testing.T, config *tls.Config) *http.Transport {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
