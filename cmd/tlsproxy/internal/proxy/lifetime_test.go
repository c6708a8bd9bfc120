package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

const hour = config.Duration(time.Hour)

// mortal gives connections an hour, and ten minutes to end after it.
func mortal(c *config.Config) {
	c.Timeouts.Lifetime, c.Timeouts.Drain = hour, 10*minute
	c.Timeouts.Idle, c.Timeouts.Tunnel, c.Timeouts.BackendResponse = 2*hour, 2*hour, 0
}

// within checks that what is to happen at the end of a lifetime, and so much later,
// happens then.
func within(t *testing.T, start time.Time, after time.Duration) {
	t.Helper()
	if d := time.Since(start) - after; d < 54*time.Minute || d > time.Hour {
		t.Errorf("it happened after %v, want 54m to 1h and %v", time.Since(start), after)
	}
}

// expired are the connections that a Server told its observer of.
type expired struct {
	silent
	drained, cut atomic.Int64
}

func (e *expired) ObserveExpired(cut bool) {
	if cut {
		e.cut.Add(1)
	} else {
		e.drained.Add(1)
	}
}

// mortalRig is a rig for a synctest bubble whose connections have a lifetime.
func mortalRig(t *testing.T, handler http.HandlerFunc) (*rig, *expired) {
	t.Helper()
	r, e := newMemRig(t, mortal, handler), new(expired)
	r.server.observer = e
	return r, e
}

func (e *expired) want(t *testing.T, drained, cut int64) {
	t.Helper()
	synctest.Wait()
	if e.drained.Load() != drained || e.cut.Load() != cut {
		t.Errorf("%d connections drained, %d cut, want %d and %d", e.drained.Load(), e.cut.Load(), drained, cut)
	}
}

// TestLifetimeOfAnIdleConnection: a connection of HTTP/1.1 stays open for another
// request, whose answer says that it is the last, be it the backend's or the proxy's own.
// If there is none it is closed after the time to drain; and not all are at one time.
func TestLifetimeOfAnIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := mortalRig(t, hello)
		get := func(c net.Conn, host string) (last bool) {
			t.Helper()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			return response.Close
		}
		start := time.Now()
		ends := make(chan time.Time)
		const many = 10
		connect := func() net.Conn {
			t.Helper()
			c := r.connect()
			if get(c, "h") {
				t.Error("the first answer is the last")
			}
			return c
		}
		for range many {
			c := connect()
			go func() {
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("an idle connection ended by %v", err)
				}
				within(t, start, 10*time.Minute)
				ends <- time.Now()
			}()
		}
		used, refused := connect(), connect()
		time.Sleep(time.Hour)
		if !get(used, "h") || !get(refused, "") {
			t.Error("an answer after the lifetime is not the last")
		}
		different := map[time.Time]bool{}
		for range many {
			different[<-ends] = true
		}
		if len(different) < 2 {
			t.Error("all connections ended at one time")
		}
		e.want(t, many+2, 0)
	})
}

// TestLifetimeWithARequestUnderWay: the request is answered to its end, the next one
// goes over another connection, and the old one is closed.
func TestLifetimeWithARequestUnderWay(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			r, e := mortalRig(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/slow" {
					time.Sleep(time.Hour + 30*time.Second)
				}
				hello(w, req)
			})
			client := r.client(http2)
			slow := make(chan string)
			go func() {
				status, body := r.get(client, "/slow")
				slow <- fmt.Sprint(status, " ", body)
			}()
			time.Sleep(time.Hour)
			if status, body := r.get(client, "/"); status != 200 || body != "hello" {
				t.Errorf("%d %q", status, body)
			}
			if st := r.server.Stats(); st.Accepted != 2 || st.Open != 2 {
				t.Errorf("after the lifetime: %+v", st)
			}
			if got := <-slow; got != "200 hello" {
				t.Error(got)
			}
			// HTTP/2 gives its client a second, and both sides that say goodbye at once
			// through a pipe, which holds nothing, wait five for each other.
			time.Sleep(10 * time.Second)
			e.want(t, 1, 0)
			if st := r.server.Stats(); st.Open != 1 {
				t.Errorf("after the request: %+v", st)
			}
		})
	})
}

// TestGoAway: a client of HTTP/2 that has nothing under way is told to go before its
// connection is closed.
func TestGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := mortalRig(t, hello)
		start := time.Now()
		policy := r.tlsConfig()
		policy.NextProtos = []string{"h2"}
		c := r.connectWith(policy)
		io.WriteString(c, http2.ClientPreface)
		framer := http2.NewFramer(c, c)
		framer.WriteSettings()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("the connection ended by %v", err)
			}
			if away, ok := frame.(*http2.GoAwayFrame); ok {
				if away.ErrCode != http2.ErrCodeNo {
					t.Errorf("%v", away)
				}
				break
			}
		}
		within(t, start, 0)
		for {
			if _, err := framer.ReadFrame(); err != nil {
				break
			}
		}
		within(t, start, time.Second)
		e.want(t, 1, 0)
	})
}

// TestLifetimeCuts: what does not end in the time to drain is cut, whatever it is, and
// the backend's side of it too.
func TestLifetimeCuts(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan bool, 1)
			r, e := mortalRig(t, func(w http.ResponseWriter, req *http.Request) {
				<-req.Context().Done()
				ended <- true
			})
			start := time.Now()
			if response, err := r.client(http2).Get("https://front.example/"); err == nil {
				t.Errorf("a request without an end was answered: %s", response.Status)
			}
			within(t, start, 10*time.Minute)
			<-ended
			e.want(t, 0, 1)
		})
	})
}

// TestLifetimeOfATunnel: an upgraded connection is not asked to end, and is cut after
// the time to drain.
func TestLifetimeOfATunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan bool, 1)
		r, e := mortalRig(t, switching(func(c net.Conn, in *bufio.Reader) {
			io.Copy(io.Discard, in)
			ended <- true
		}))
		start, record := time.Now(), r.recording()
		c, _ := r.upgraded("")
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("read from a tunnel that nobody writes to")
		}
		if record.toldOfTheEnd() {
			t.Error("it ended as if it were whole")
		}
		within(t, start, 10*time.Minute)
		<-ended
		e.want(t, 0, 1)
	})
}

// TestLifetimeOfAHalfClosedTunnel: an upgraded connection of which one direction has
// ended lasts as long as any other, the other direction works until it is cut, and then
// both sides see its end.
func TestLifetimeOfAHalfClosedTunnel(t *testing.T) {
	for name, byBackend := range map[string]bool{"by the client": false, "by the backend": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				r, e := mortalRig(t, switching(func(c net.Conn, in *bufio.Reader) {
					if byBackend {
						c.(halfCloser).CloseWrite()
						_, err := io.Copy(io.Discard, in)
						ended <- err
						return
					}
					if _, err := io.Copy(io.Discard, in); err != nil {
						t.Errorf("the client's direction ended by %v", err)
					}
					ended <- drip(c)
				}))
				start, record := time.Now(), r.recording()
				c, half := r.upgraded("")
				if byBackend {
					if n, err := io.Copy(io.Discard, c); n > 0 || err != nil || !record.toldOfTheEnd() {
						t.Errorf("the backend's direction ended after %d bytes by %v", n, err)
					}
					drip(c)
				} else {
					half.CloseWrite()
					if n, _ := io.Copy(io.Discard, c); n < 64 || record.toldOfTheEnd() {
						t.Errorf("after %d bytes; as if that were all: %v", n, record.toldOfTheEnd())
					}
				}
				within(t, start, 10*time.Minute)
				<-ended
				within(t, start, 10*time.Minute)
				e.want(t, 0, 1)
			})
		})
	}
}

// drip writes a byte a minute until that fails.
func drip(w io.Writer) error {
	for {
		if _, err := w.Write([]byte{0}); err != nil {
			return err
		}
		time.Sleep(time.Minute)
	}
}

// TestLifetimeOfARelay: the same holds for a connection in mode tcp.
func TestLifetimeOfARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) {
			mortal(c)
			c.Hosts = []config.Host{{Names: []config.HostName{"*"}, Mode: config.ModeTCP, Pool: "db"}}
			c.Pools = map[string]config.Pool{"db": pool(config.URL{URL: &url.URL{Scheme: "tcp", Host: "db.example:1"}})}
		}, nil)
		e := new(expired)
		r.server.observer = e
		ended := make(chan bool, 1)
		go func() {
			c, err := r.back.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			io.Copy(io.Discard, c)
			ended <- true
		}()
		start := time.Now()
		c, err := r.askFor("front.example")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("read from a relay that nobody writes to")
		}
		within(t, start, 10*time.Minute)
		<-ended
		e.want(t, 0, 1)
	})
}

// TestNoLifetimeLeft: a connection that ends by itself is not counted, and neither is
// one whose lifetime another configuration has.
func TestNoLifetimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := mortalRig(t, hello)
		c := r.connect()
		c.Close()
		synctest.Wait()
		immortal := *r.config
		immortal.Timeouts.Lifetime = 0
		o := r.options
		o.Config = &immortal
		r.server.Update(o)
		r.server.observer = e
		old := r.connect()
		time.Sleep(3 * time.Hour)
		e.want(t, 0, 0)
		old.Close()
	})
}
