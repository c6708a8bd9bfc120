package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// response is the answer to --get.
type response struct {
	Status int    `json:"status"`
	Proto  string `json:"proto"`
	Body   string `json:"body"`
}

// maxBody bounds the part of an answer that is kept, in bytes.
const maxBody = 1 << 20

// get makes one request on conn, in HTTP/2 where ALPN agreed on it. It closes
// conn.
func get(ctx context.Context, conn *tls.Conn, url string) (*response, error) {
	used := false
	transport := &http.Transport{
		ForceAttemptHTTP2:  true,
		DisableCompression: true,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			if used {
				return nil, errors.New("the server closed the connection before it answered")
			}
			used = true
			return conn, nil
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, &outcome.ApplicationError{Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, &outcome.ApplicationError{Err: err}
	}
	answer := &response{resp.StatusCode, resp.Proto, string(body)}
	if resp.StatusCode >= 400 {
		return answer, &outcome.ApplicationError{Err: fmt.Errorf("%s answered %s", url, resp.Status)}
	}
	return answer, nil
}

// echo sends size random bytes, expects them back, and closes conn.
func echo(conn *tls.Conn, size int) (int, error) {
	sent := make([]byte, size)
	rand.Read(sent)
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		if err == nil {
			err = conn.CloseWrite()
		}
		wrote <- err
	}()
	got, err := io.ReadAll(io.LimitReader(conn, int64(size)+1))
	if err != nil {
		conn.NetConn().Close() // ends the write
		<-wrote
		return len(got), err
	}
	if err := <-wrote; err != nil {
		return len(got), err
	}
	if !bytes.Equal(got, sent) {
		return len(got), &outcome.ApplicationError{Err: fmt.Errorf("%d bytes came back that are not the %d sent", len(got), size)}
	}
	return len(got), conn.Close()
}
