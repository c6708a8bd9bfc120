package tlsext_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// A server and a client of net/http, with HTTP/2, by the hybrid group. Real ones
// differ only in where their certificates come from.
func ExampleRegister() {
	p, err := provider.Open(provider.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := tlsext.Register(p); err != nil {
		log.Fatal(err) // built without gotls: the error says what to type
	}

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s by %v", r.Proto, r.TLS.CurveID)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{CurvePreferences: tlsext.Preferences(tlsext.X25519CTRUPrime761)}
	server.StartTLS()
	defer server.Close()

	client := server.Client() // trusts the server's certificate
	client.Transport.(*http.Transport).TLSClientConfig.CurvePreferences = tlsext.Preferences(tlsext.X25519CTRUPrime761)
	response, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", body)
	// Output: HTTP/2.0 by X25519CTRUPrime761
}

// To refuse peers without a post-quantum group, name no classical one.
func Example_requireHybrid() {
	config := &tls.Config{
		MinVersion:       tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519MLKEM768},
	}
	for _, id := range config.CurvePreferences {
		fmt.Println(tlsext.GroupName(id))
	}
	// Output:
	// X25519CTRUPrime761
	// X25519MLKEM768
}

func ExamplePreferences() {
	for _, id := range tlsext.Preferences(tlsext.X25519CTRUPrime761, tls.X25519) {
		fmt.Println(tlsext.GroupName(id))
	}
	// Output:
	// X25519CTRUPrime761
	// X25519
	// X25519MLKEM768
	// SecP256r1MLKEM768
	// SecP384r1MLKEM1024
	// CurveP256
	// CurveP384
	// CurveP521
}

// A path that loses large ClientHellos: send the share of X25519 alone at first.
// A server that wants the hybrid group asks for its share.
func ExampleWithClientShares() {
	p, err := provider.Open(provider.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := tlsext.Register(p); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{CurvePreferences: tlsext.Preferences(tlsext.X25519CTRUPrime761)}
	server.StartTLS()
	defer server.Close()

	dialer := tls.Dialer{Config: &tls.Config{
		RootCAs:          server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		CurvePreferences: tlsext.Preferences(tlsext.X25519CTRUPrime761),
	}}
	ctx := tlsext.WithClientShares(context.Background(), tls.X25519)
	conn, err := dialer.DialContext(ctx, "tcp", server.Listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	fmt.Println(state.CurveID, "after a HelloRetryRequest:", state.HelloRetryRequest)
	// Output: X25519CTRUPrime761 after a HelloRetryRequest: true
}

// An observer learns of each key exchange, of those that failed too.
func ExampleWithObserver() {
	p, err := provider.Open(provider.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := tlsext.Register(p); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{CurvePreferences: tlsext.Preferences(tlsext.X25519CTRUPrime761)}
	server.StartTLS()
	defer server.Close()

	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.CurvePreferences = []tls.CurveID{tlsext.X25519CTRUPrime761}
	ctx := tlsext.WithObserver(context.Background(), func(e tlsext.Event) {
		fmt.Println(e.Group, "server:", e.Server, "error:", e.Err)
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	// Output: X25519CTRUPrime761 server: false error: <nil>
}
