package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// counted counts what a client writes and reads.
type counted struct {
	net.Conn
	written, read uint64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written += uint64(n)
	return n, err
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read += uint64(n)
	return n, err
}

// TestTraffic: each byte of a connection is counted, those of its handshake too,
// and each request while it is under way.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan bool), make(chan bool)
		r := newMemRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			entered <- true
			<-leave
			hello(w, req)
		})
		var client *counted
		dial := r.dial
		r.dial = func(ctx context.Context) (net.Conn, error) {
			raw, err := dial(ctx)
			client = &counted{Conn: raw}
			return client, err
		}
		c := r.connect()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: front.example\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
		synctest.Wait() // the handshake's goroutine may be behind the request
		if st := r.server.Stats(); st.Accepted != 1 || st.Handshaking != 0 || st.Underway != 1 || st.Received != client.written {
			t.Errorf("%+v with a request under way, %d bytes were sent", st, client.written)
		}
		leave <- true
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d bytes after the answer, %v", n, err)
		}
		c.Close()
		synctest.Wait()
		if st := r.server.Stats(); st.Open != 0 || st.Underway != 0 || st.Sent != client.read {
			t.Errorf("%+v in the end, %d bytes came", st, client.read)
		}
	})
}

// TestTrafficOfSilentClients: what comes of a client that never gets to speak TLS is
// counted too, and so is a PROXY header.
func TestTrafficOfSilentClients(t *testing.T) {
	r := newRig(t, nil, hello)
	head := header(t)
	r.behind(loopback(), always(head))
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	part := clientHello(t, "front.example")[:100]
	if _, err := raw.Write(part); err != nil {
		t.Fatal(err)
	}
	raw.(*headed).CloseWrite()
	r.log.wait("within its ClientHello")
	if got, want := r.server.Stats().Received, uint64(len(head)+len(part)); got != want {
		t.Errorf("%d bytes are counted, %d were sent", got, want)
	}
}

// TestTruncatedFront: a connection that ends within its PROXY header is refused like
// one whose header is faulty.
func TestTruncatedFront(t *testing.T) {
	r := newRig(t, nil, hello)
	r.behind(loopback(), always(header(t)[:20]))
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	raw.Write(nil)
	raw.(*headed).CloseWrite()
	if line := r.log.wait("remote="); !strings.Contains(line, "connection refused") || !strings.Contains(line, "a faulty PROXY header") {
		t.Error(line)
	}
}
