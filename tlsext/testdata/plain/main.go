// Command plain is built without gotls by the tests of tlsext, to have a peer
// with the crypto/tls that everybody else has. It obeys one JSON request on
// standard input and prints one JSON reply.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

type request struct {
	Groups []tls.CurveID
	// One of these: make a ClientHello and stop; handshake as a client, or as a
	// server, over the TCP connection to that address.
	Hello          bool
	Client, Server string
	// What a client trusts and whom it expects; what a server presents.
	Roots, Cert []byte
	Key         []byte
	ServerName  string
}

type reply struct {
	Available bool
	Register  string // its error
	Hello     []byte // the record
	Group     tls.CurveID
	Retry     bool
	Err       string
}

func main() {
	var req request
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
	r, err := obey(req)
	if err != nil {
		r.Err = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func obey(req request) (r reply, err error) {
	r.Available = tlsext.Available()
	p, err := provider.Open(provider.Config{})
	if err != nil {
		return r, err
	}
	defer p.Close()
	if err := tlsext.Register(p); err != nil {
		r.Register = err.Error()
	}
	config := &tls.Config{CurvePreferences: req.Groups, ServerName: req.ServerName}
	var conn *tls.Conn
	switch {
	case req.Hello:
		sink := &sink{}
		if err := tls.Client(sink, config).Handshake(); !errors.Is(err, errSink) {
			return r, err
		}
		r.Hello = sink.hello
		return r, nil
	case req.Client != "":
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(req.Roots)
		if conn, err = tls.Dial("tcp", req.Client, config); err != nil {
			return r, err
		}
	case req.Server != "":
		cert, err := tls.X509KeyPair(req.Cert, req.Key)
		if err != nil {
			return r, err
		}
		config.Certificates = []tls.Certificate{cert}
		tcp, err := net.Dial("tcp", req.Server)
		if err != nil {
			return r, err
		}
		conn = tls.Server(tcp, config)
		if err := conn.Handshake(); err != nil {
			return r, err
		}
	}
	defer conn.Close()
	b := []byte{42}
	if _, err := conn.Write(b); err != nil {
		return r, err
	}
	if _, err := conn.Read(b); err != nil {
		return r, err
	}
	state := conn.ConnectionState()
	r.Group, r.Retry = state.CurveID, state.HelloRetryRequest
	return r, nil
}

// sink keeps what is written to it and answers nothing.
type sink struct {
	net.Conn
	hello []byte
}

var errSink = errors.New("no answer")

func (s *sink) Write(b []byte) (int, error) { s.hello = append(s.hello, b...); return len(b), nil }
func (s *sink) Read([]byte) (int, error)    { return 0, errSink }
func (s *sink) Close() error                { return nil }
