package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// TestWebSocket echoes messages of several sizes and closes in good order.
func TestWebSocket(t *testing.T) {
	closed := make(chan websocket.StatusCode, 1)
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		for {
			kind, message, err := c.Read(context.Background())
			if err != nil {
				closed <- websocket.CloseStatus(err)
				return
			}
			if err := c.Write(context.Background(), kind, message); err != nil {
				t.Error(err)
				return
			}
		}
	})
	c, _, err := websocket.Dial(context.Background(), "wss://front.example/socket", &websocket.DialOptions{HTTPClient: r.client(false)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	for _, size := range []int{0, 1, 125, 126, 65536, 200_000} {
		message := strings.Repeat("m", size)
		if err := c.Write(context.Background(), websocket.MessageBinary, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(context.Background()); err != nil || string(got) != message {
			t.Fatalf("%d bytes: %d came back, %v", size, len(got), err)
		}
	}
	if err := c.Close(websocket.StatusGoingAway, "enough"); err != nil {
		t.Error(err)
	}
	if status := <-closed; status != websocket.StatusGoingAway {
		t.Errorf("the backend saw close status %d", status)
	}
}

// switching answers a request to upgrade and hands the connection to use.
func switching(use func(net.Conn, *bufio.Reader)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "chat" {
			http.Error(w, "no upgrade asked for", http.StatusBadRequest)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
		use(c, rw.Reader)
	}
}

const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"

// upgraded sends the request to upgrade, and ahead right behind it.
func (r *rig) upgraded(ahead string) (io.ReadWriter, interface{ CloseWrite() error }) {
	r.t.Helper()
	c := r.connect()
	io.WriteString(c, upgrade+ahead)
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != "chat" {
		r.t.Fatalf("%v %v", response, err)
	}
	return struct {
		io.Reader
		io.Writer
	}{in, c}, c
}

// TestHalfCloseByClient: the client ends its direction, the backend reads to
// the end, and only then answers.
func TestHalfCloseByClient(t *testing.T) {
	r := newRig(t, nil, switching(func(c net.Conn, in *bufio.Reader) {
		all, err := io.ReadAll(in)
		fmt.Fprintf(c, "read %d bytes, %v", len(all), err)
	}))
	c, half := r.upgraded("")
	io.WriteString(c, strings.Repeat("x", 100_000))
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "read 100000 bytes, <nil>" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestHalfCloseByBackend: the backend ends its direction, the client reads to
// the end, and its own direction still works.
func TestHalfCloseByBackend(t *testing.T) {
	got := make(chan string, 1)
	r := newRig(t, nil, switching(func(c net.Conn, in *bufio.Reader) {
		fmt.Fprint(c, "all I have to say")
		c.(*net.TCPConn).CloseWrite()
		all, err := io.ReadAll(in)
		got <- fmt.Sprint(string(all), err)
	}))
	c, half := r.upgraded("")
	if all, err := io.ReadAll(c); string(all) != "all I have to say" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
	io.WriteString(c, "still here")
	half.CloseWrite()
	if got := <-got; got != "still here<nil>" {
		t.Errorf("the backend read %s", got)
	}
}

// TestTunnelIsBrokenOff: a client is told that all was sent if the backend has ended its
// direction, and not if it broke off: as in mode tcp.
func TestTunnelIsBrokenOff(t *testing.T) {
	for how, whole := range map[string]bool{"ends": true, "breaks off": false} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, nil, switching(func(c net.Conn, in *bufio.Reader) {
				in.ReadByte()
				if !whole {
					c.(*net.TCPConn).SetLinger(0)
				}
			}))
			record := r.recording()
			c, _ := r.upgraded("")
			io.WriteString(c, "x")
			if rest, _ := io.ReadAll(c); len(rest) > 0 || record.toldOfTheEnd() != whole {
				t.Errorf("%q; told of the end: %v, want %v", rest, record.toldOfTheEnd(), whole)
			}
		})
	}
}

// TestBytesSentAhead: what a client sends together with its request to upgrade
// reaches the backend.
func TestBytesSentAhead(t *testing.T) {
	r := newRig(t, nil, switching(func(c net.Conn, in *bufio.Reader) {
		all, _ := io.ReadAll(in)
		c.Write(all)
	}))
	ahead := strings.Repeat("ahead ", 1000)
	c, half := r.upgraded(ahead)
	io.WriteString(c, "and behind")
	half.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != ahead+"and behind" || err != nil {
		t.Errorf("%d bytes, want %d; %v", len(got), len(ahead)+len("and behind"), err)
	}
}

// TestNoOtherHTTP: a client cannot switch the backend to another HTTP.
func TestNoOtherHTTP(t *testing.T) {
	var seen http.Header
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) { seen = req.Header })
	for _, protocol := range []string{"h2c", "H2C", "chat, h2c", "TLS/1.2", "HTTP/2.0"} {
		response, _ := r.raw("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol + "\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
		if response.StatusCode != 200 {
			t.Errorf("%s: status %d", protocol, response.StatusCode)
		}
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			if v, ok := seen[name]; ok {
				t.Errorf("%s: the backend saw %s: %v", protocol, name, v)
			}
		}
	}
}

// TestUpgradeWithABody: a request that has a body is a plain one, be the body long or of
// a length that is not known, and so is one of HTTP/1.0.
func TestUpgradeWithABody(t *testing.T) {
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Fprintf(w, "%q %q %s", req.Header["Upgrade"], req.Header["Connection"], body)
	})
	for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"} {
		if response, got := r.raw(strings.TrimSuffix(upgrade, "\r\n") + body); response.StatusCode != 200 || got != "[] [] abc" {
			t.Errorf("%s %s", response.Status, got)
		}
	}
	if response, got := r.raw(strings.TrimSuffix(upgrade, "\r\n") + "Content-Length: 0\r\n\r\n"); response.StatusCode != 200 || got != `["chat"] ["Upgrade"] ` {
		t.Errorf("without a body: %s %s", response.Status, got)
	}
	if response, got := r.raw(strings.Replace(upgrade, "HTTP/1.1", "HTTP/1.0", 1)); response.StatusCode != 200 || got != "[] [] " {
		t.Errorf("HTTP/1.0: %s %s", response.Status, got)
	}
}

// TestRefusedUpgrade: a backend may answer as if nobody had asked.
func TestRefusedUpgrade(t *testing.T) {
	r := newRig(t, nil, hello)
	if response, body := r.raw(upgrade); response.StatusCode != 200 || body != "hello" {
		t.Errorf("%s %q", response.Status, body)
	}
}

// TestAnotherUpgrade: a backend that switches to something other than what was asked for,
// be it one of several, has broken off, and its connection is given up.
func TestAnotherUpgrade(t *testing.T) {
	for _, headers := range []string{"Connection: Upgrade\r\nUpgrade: chat, other\r\n", "Connection: Upgrade\r\nUpgrade: other\r\n", ""} {
		ended := make(chan error, 1)
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
			_, err = io.Copy(io.Discard, rw)
			ended <- err
		})
		if response, body := r.raw("GET / HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n"); response.StatusCode != 502 {
			t.Errorf("%s: %s %q", headers, response.Status, body)
		}
		<-ended
		for r.pool.Status()[0].Underway > 0 { // until it counts no more
			time.Sleep(time.Millisecond)
		}
	}
}

// TestIdleTunnel: an upgraded connection ends when nothing passes for a time,
// however long it has been there.
func TestIdleTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.Tunnel = config.Duration(time.Minute) },
			switching(func(c net.Conn, in *bufio.Reader) {
				_, err := io.Copy(c, in)
				ended <- err
			}))
		c, _ := r.upgraded("")
		buf := make([]byte, 4)
		for range 10 {
			time.Sleep(59 * time.Second)
			io.WriteString(c, "ping")
			if _, err := io.ReadFull(c, buf); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if _, err := c.Read(buf); err == nil {
			t.Error("read from an idle tunnel")
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("it ended after %v", d)
		}
		<-ended
	})
}

// TestClosedTunnel: what one direction still passes when the other has closed the tunnel
// does not start its timer again, which would keep it in memory for as long.
func TestClosedTunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		tunnel := newTunnel(near, bufio.NewReader(strings.NewReader("")), time.Minute, func() { t.Error("the timer ran out") })
		passed := make(chan bool)
		go func() {
			tunnel.Read(make([]byte, 1)) // it has the byte, and is held up
			<-passed
			tunnel.used(1)
			close(passed)
		}()
		far.Write([]byte{1})
		tunnel.Close()
		passed <- true
		<-passed
		time.Sleep(time.Hour)
	})
}

// TestServerSentEvents: each event arrives before the backend makes the next.
func TestServerSentEvents(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		next := make(chan bool)
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for n := range 5 {
				fmt.Fprintf(w, "data: %d\n\n", n)
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
			line, err := in.ReadString('\n')
			if err != nil || line != fmt.Sprintf("data: %d\n", n) {
				t.Fatalf("%q, %v", line, err)
			}
			in.ReadString('\n')
			next <- true
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Error(err)
		}
	})
}

// TestStreamedUpload: the backend gets each piece of a body before the client
// makes the next, and the client each piece of the answer.
func TestStreamedUpload(t *testing.T) { forBoth(t, streamedUpload) }

func streamedUpload(t *testing.T, http2 bool) {
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
		control := http.NewResponseController(w)
		control.EnableFullDuplex()
		buf := make([]byte, 16)
		for {
			n, err := req.Body.Read(buf)
			w.Write(buf[:n])
			control.Flush()
			if err != nil {
				return
			}
		}
	})
	body, pieces := io.Pipe()
	response := make(chan *http.Response, 1)
	go func() {
		got, err := r.client(http2).Post("https://front.example/", "application/octet-stream", body)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		response <- got
	}()
	io.WriteString(pieces, "piece 0")
	got := <-response
	if got == nil {
		t.Fatal("no answer")
	}
	defer got.Body.Close()
	buf := make([]byte, 7)
	for n := range 5 {
		if _, err := io.ReadFull(got.Body, buf); err != nil || string(buf) != fmt.Sprint("piece ", n) {
			t.Fatalf("%q, %v", buf, err)
		}
		fmt.Fprint(pieces, "piece ", n+1)
	}
	pieces.Close()
}
