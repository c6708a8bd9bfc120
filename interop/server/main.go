package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/interop/internal/hook"
	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

type options struct {
	Listen     string   `default:"127.0.0.1:0" help:"Address to listen on."`
	Cert       string   `required:"" type:"existingfile" help:"PEM file of the certificate chain."`
	Key        string   `required:"" type:"existingfile" help:"PEM file of its key."`
	Group      []string `placeholder:"NAME" help:"Groups to accept, in order of preference."`
	ALPN       []string `name:"alpn" placeholder:"PROTOCOL" help:"Application protocols to accept, in order of preference."`
	ClientAuth string   `enum:"none,request,require" default:"none" help:"Client certificates: ${enum}. One that is given must be of --client-ca."`
	ClientCA   string   `name:"client-ca" type:"existingfile" help:"PEM file of the authorities that sign client certificates."`
	MinVersion string   `enum:"1.2,1.3" default:"1.2" help:"Lowest TLS version: ${enum}."`
	MaxVersion string   `enum:"1.2,1.3" default:"1.3" help:"Highest TLS version: ${enum}."`
	NoTickets  bool     `help:"Issue and accept no session tickets."`
	Echo       bool     `help:"Send back what is received in place of speaking HTTP."`

	Connections  int           `default:"1024" help:"Connections at a time, up to ${max_connections}; more wait."`
	Timeout      time.Duration `default:"10s" help:"Time for each handshake, and for each wait for the peer after it."`
	EndWithStdin bool          `help:"End when standard input does."`
}

const maxConnections = 65536

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	exit := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(int(exit))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) outcome.Exit {
	var o options
	parser, err := kong.New(&o, kong.Name("server"),
		kong.Description("A TLS server that prints what each handshake negotiated as JSON."),
		kong.Writers(stdout, stderr),
		kong.Vars{"max_connections": fmt.Sprint(maxConnections)})
	if err != nil {
		panic(err) // the struct above is wrong
	}
	if _, err := parser.Parse(args); err != nil {
		return usage(stderr, err)
	}
	if err := o.check(); err != nil {
		return usage(stderr, err)
	}
	release, err := hook.Open(1)
	if err != nil {
		return usage(stderr, err)
	}
	defer release()
	cfg, err := o.tlsConfig()
	if err != nil {
		return usage(stderr, err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return usage(stderr, err)
	}
	if o.EndWithStdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		go func() {
			io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	newServer(&o, cfg, stdout).run(ctx, listener)
	return outcome.OK
}

func usage(stderr io.Writer, err error) outcome.Exit {
	fmt.Fprintf(stderr, "server: %v\n", err)
	var missing *hook.MissingError
	if errors.As(err, &missing) {
		return outcome.NoHook
	}
	return outcome.Usage
}

func (o *options) check() error {
	switch {
	case o.Connections < 1 || o.Connections > maxConnections:
		return fmt.Errorf("--connections is %d; it goes from 1 to %d", o.Connections, maxConnections)
	case o.Timeout <= 0:
		return errors.New("--timeout must be positive")
	case o.ClientAuth != "none" && o.ClientCA == "":
		return fmt.Errorf("--client-auth %s needs --client-ca", o.ClientAuth)
	}
	return nil
}

func (o *options) tlsConfig() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		Certificates:           []tls.Certificate{pair},
		NextProtos:             o.ALPN,
		MinVersion:             version(o.MinVersion),
		MaxVersion:             version(o.MaxVersion),
		SessionTicketsDisabled: o.NoTickets,
		CurvePreferences:       hook.Default(),
	}
	if len(o.Group) > 0 {
		if cfg.CurvePreferences, err = hook.Groups(o.Group); err != nil {
			return nil, err
		}
	}
	switch o.ClientAuth {
	case "request":
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
	case "require":
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if o.ClientCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(o.ClientCA)
	if err != nil {
		return nil, err
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", o.ClientCA)
	}
	return cfg, nil
}

func version(name string) uint16 {
	if name == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}
