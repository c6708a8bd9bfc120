package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/interop/internal/certs"
)

type commands struct {
	Certificates certificatesCommand `cmd:"" help:"Write an authority (ca.pem) and a server's certificate (server.pem, server-key.pem), ECDSA P-256, for localhost and 127.0.0.1."`
	Backend      backendCommand      `cmd:"" help:"Answer every request over HTTP with a few bytes."`
	Serve        serveCommand        `cmd:"" help:"Be a reverse proxy with TLS."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	parsed := kong.Parse(new(commands), kong.Name("goproxy"), kong.Description("The plain Go reverse proxy that tlsproxy is measured against."))
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.BindTo(os.Stdout, (*io.Writer)(nil))
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "goproxy:", err)
		os.Exit(1)
	}
}

type certificatesCommand struct {
	Dir string `arg:"" type:"existingdir" help:"Where to write them."`
}

// Run writes the files.
func (c *certificatesCommand) Run() error {
	_, err := certs.Write(c.Dir)
	return err
}

type backendCommand struct {
	Listen string `default:"127.0.0.1:0" help:"Address to listen on."`
}

// Run answers until ctx is done.
func (c *backendCommand) Run(ctx context.Context, out io.Writer) error {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello from the backend\n") })
	ln, err := listen(c.Listen, out)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: answer}
	return serve(ctx, server, func() error { return server.Serve(ln) })
}

type serveCommand struct {
	Listen  string   `default:"127.0.0.1:0" help:"Address to listen on."`
	Cert    string   `required:"" type:"existingfile" help:"PEM file of the certificate chain."`
	Key     string   `required:"" type:"existingfile" help:"PEM file of its key."`
	Backend *url.URL `required:"" placeholder:"URL" help:"Where requests go."`
}

// keptConnections is how many idle connections to the backend are kept: as many as
// tlsproxy keeps. net/http's default of 2 would have it connect for most requests.
const keptConnections = 256

// Run serves until ctx is done.
func (c *serveCommand) Run(ctx context.Context, out io.Writer) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = keptConnections
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(c.Backend)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}
	ln, err := listen(c.Listen, out)
	if err != nil {
		return err
	}
	// A client that closes its connection after the handshake is no error here.
	server := &http.Server{Handler: proxy, ErrorLog: log.New(io.Discard, "", 0)}
	return serve(ctx, server, func() error { return server.ServeTLS(ln, c.Cert, c.Key) })
}

// listen says where, in a line.
func listen(address string, out io.Writer) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintln(out, "listening on", ln.Addr())
	return ln, err
}

// serve runs until ctx is done, and then a little longer for what is under way.
func serve(ctx context.Context, server *http.Server, run func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(within); err != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
