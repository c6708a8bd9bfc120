package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/interop/internal/hook"
	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

type options struct {
	Address string `arg:"" help:"Server, as HOST:PORT."`

	ServerName string   `help:"Name that the server's certificate must have and that is sent as SNI; the host of ADDRESS by default."`
	Group      []string `placeholder:"NAME" help:"Groups to offer, in order of preference (X25519CTRUPrime761, X25519MLKEM768, X25519, P-256, ...)."`
	Share      []string `placeholder:"NAME" help:"Groups to send a key share for, out of those offered. Needs a group of ours among them."`
	ALPN       []string `name:"alpn" placeholder:"PROTOCOL" help:"Application protocols to offer, such as h2,http/1.1."`
	CA         string   `name:"ca" type:"existingfile" help:"PEM file of the authorities to trust, in place of the system's."`
	Insecure   bool     `help:"Do not verify the server's certificate."`
	Cert       string   `type:"existingfile" help:"PEM file of the client's certificate chain, sent to a server that asks for one."`
	Key        string   `type:"existingfile" help:"PEM file of its key."`
	MinVersion string   `enum:"1.2,1.3" default:"1.2" help:"Lowest TLS version: ${enum}."`
	MaxVersion string   `enum:"1.2,1.3" default:"1.3" help:"Highest TLS version: ${enum}."`

	Count       int           `default:"1" help:"Connections to make, up to ${max_count}."`
	Concurrency int           `default:"1" help:"Connections at a time, up to ${max_concurrency}."`
	Resume      bool          `help:"Keep session tickets and resume with them. The first connections of a client have none."`
	Timeout     time.Duration `default:"10s" help:"Time for each connection, from connecting to closing."`

	Get        string `placeholder:"PATH" xor:"exchange" help:"Make one HTTP request on each connection."`
	Echo       int    `placeholder:"BYTES" xor:"exchange" help:"Send this many random bytes and expect them back."`
	AwaitClose bool   `xor:"exchange" help:"Send nothing; wait until the server closes or sends an alert."`

	RecordSize  int `placeholder:"BYTES" help:"Cut the ClientHello into records of at most this much payload."`
	SegmentSize int `placeholder:"BYTES" help:"Write the ClientHello in pieces of at most this size."`
	HelloSize   int `placeholder:"BYTES" help:"Add unused ALPN names until the ClientHello has at least this size. Needs --alpn."`

	Summary bool `help:"Print one summary in place of a line a connection."`
}

// Bounds of the command line.
const (
	maxCount       = 10_000_000
	maxConcurrency = 4096
	maxEcho        = 1 << 24
	maxHello       = 1<<16 - 4096 // crypto/tls accepts a message of 64 KiB
)

func main() { os.Exit(int(run(os.Args[1:], os.Stdout, os.Stderr))) }

func run(args []string, stdout, stderr io.Writer) outcome.Exit {
	var o options
	parser, err := kong.New(&o, kong.Name("client"),
		kong.Description("Makes TLS connections and prints what was negotiated as JSON."),
		kong.Writers(stdout, stderr),
		kong.Vars{"max_count": fmt.Sprint(maxCount), "max_concurrency": fmt.Sprint(maxConcurrency)})
	if err != nil {
		panic(err) // the struct above is wrong
	}
	if _, err := parser.Parse(args); err != nil {
		return usage(stderr, err)
	}
	if err := o.check(); err != nil {
		return usage(stderr, err)
	}
	release, err := hook.Open(o.Count)
	if err != nil {
		return usage(stderr, err)
	}
	defer release()
	c, err := newClient(&o)
	if err != nil {
		return usage(stderr, err)
	}
	return c.run(stdout)
}

func usage(stderr io.Writer, err error) outcome.Exit {
	fmt.Fprintf(stderr, "client: %v\n", err)
	var missing *hook.MissingError
	if errors.As(err, &missing) {
		return outcome.NoHook
	}
	return outcome.Usage
}

func (o *options) check() error {
	for _, b := range []struct {
		flag          string
		value, lo, hi int
	}{
		{"--count", o.Count, 1, maxCount},
		{"--concurrency", o.Concurrency, 1, maxConcurrency},
		{"--echo", o.Echo, 0, maxEcho},
		{"--record-size", o.RecordSize, 0, 1 << 14},
		{"--segment-size", o.SegmentSize, 0, maxHello},
		{"--hello-size", o.HelloSize, 0, maxHello},
	} {
		if b.value < b.lo || b.value > b.hi {
			return fmt.Errorf("%s is %d; it goes from %d to %d", b.flag, b.value, b.lo, b.hi)
		}
	}
	switch {
	case (o.Cert == "") != (o.Key == ""):
		return errors.New("--cert and --key go together")
	case o.Timeout <= 0:
		return errors.New("--timeout must be positive")
	case o.HelloSize > 0 && len(o.ALPN) == 0:
		return errors.New("--hello-size adds to the list of --alpn, which is empty")
	case o.Get != "" && !strings.HasPrefix(o.Get, "/"):
		return fmt.Errorf("--get %q: a path starts with /", o.Get)
	}
	return nil
}

// tlsConfig is the crypto/tls configuration that the flags ask for.
func (o *options) tlsConfig() (*tls.Config, error) {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		ServerName:         host,
		NextProtos:         slices.Clone(o.ALPN),
		InsecureSkipVerify: o.Insecure,
		MinVersion:         version(o.MinVersion),
		MaxVersion:         version(o.MaxVersion),
		CurvePreferences:   hook.Default(),
	}
	if o.ServerName != "" {
		cfg.ServerName = o.ServerName
	}
	if len(o.Group) > 0 {
		if cfg.CurvePreferences, err = hook.Groups(o.Group); err != nil {
			return nil, err
		}
	}
	if o.Resume {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	if err := o.loadCertificates(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

func (o *options) loadCertificates(cfg *tls.Config) error {
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate in PEM form", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return nil
}

func version(name string) uint16 {
	if name == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}
