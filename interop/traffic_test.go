package interop

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestTraffic sends requests of every kind through the proxy while backends die
// and come back, the configuration is read again, and clients give up. No byte
// may be wrong, no request may fail that its client did not break off, and in the
// end the proxy must hold no more than before.
//
// GET goes to backends that die: it may be repeated. POST and WebSocket go to one
// that lives: what breaks off in the middle of those cannot be hidden.
func TestTraffic(t *testing.T) {
	var mortals []*mortal
	for range 3 {
		mortals = append(mortals, newMortal(t))
	}
	steady := newMortal(t)
	p := startTrafficProxy(t, mortals, steady)
	run := &traffic{t: t, proxy: p, roots: roots(t)}

	run.send(trafficRequests / 10) // until all pools of objects and connections are filled
	before := p.gauges()
	stop := make(chan struct{})
	var disturbing sync.WaitGroup
	disturbing.Go(func() { p.disturb(t, mortals, run, stop) })
	run.send(trafficRequests)
	close(stop)
	disturbing.Wait()
	after := p.gauges()
	t.Logf("%d requests, %d of them given up by the client; backends died %d times; %d reloads; before %+v, after %+v",
		run.done.Load(), run.abandoned.Load(), p.deaths, p.reloads, before, after)
	if n := run.failed.Load(); n > 0 {
		t.Errorf("%d requests failed; the proxy wrote:\n%s", n, p.unforeseen())
	}
	if p.deaths == 0 || p.reloads == 0 || run.abandoned.Load() == 0 {
		t.Error("nothing was disturbed")
	}
	if n := gauge(t, p.fetch("/metrics"), `tlsproxy_reloads_total\{outcome="failed"\}`); n > 0 {
		t.Errorf("%.0f reloads failed", n)
	}
	// A few goroutines and descriptors come and go with timers and reloads.
	if after.goroutines > before.goroutines+16 || after.descriptors > before.descriptors+16 {
		t.Errorf("goroutines and descriptors grew from %+v to %+v", before, after)
	}
	if after.heap > before.heap+16<<20 {
		t.Errorf("the heap grew from %.0f to %.0f bytes", before.heap, after.heap)
	}
}

// mortal is a backend that can be killed, and brought back at its address.
type mortal struct {
	address string
	server  *http.Server
	done    chan struct{}
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	m := &mortal{address: "127.0.0.1:0"}
	m.live(t)
	t.Cleanup(m.die)
	return m
}

// live waits while a connection has the port: the system may have given it to one
// of the clients meanwhile.
func (m *mortal) live(t *testing.T) {
	deadline := time.Now().Add(patience)
	ln, err := net.Listen("tcp", m.address)
	for errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond) // between two tries
		ln, err = net.Listen("tcp", m.address)
	}
	if err != nil {
		t.Error(err)
		return
	}
	m.address, m.done = ln.Addr().String(), make(chan struct{})
	m.server = &http.Server{Handler: http.HandlerFunc(answerTraffic), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() {
		defer close(m.done)
		m.server.Serve(ln)
	}()
}

// die cuts every connection.
func (m *mortal) die() {
	m.server.Close()
	<-m.done
}

// content is what a request for so many bytes under a seed is answered with.
func content(seed uint64, n int) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

func answerTraffic(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/socket") {
		echoMessages(w, r)
		return
	}
	if r.Method == http.MethodPost { // net/http drops what is not read before it answers
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Write(body)
		return
	}
	seed, _ := strconv.ParseUint(r.FormValue("seed"), 10, 64)
	n, _ := strconv.Atoi(r.FormValue("n"))
	w.Header().Set("Content-Length", strconv.Itoa(n)) // one write: whole or not at all
	w.Write(content(seed, n))
}

func echoMessages(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if c.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// trafficProxy is tlsproxy and what is done to it.
type trafficProxy struct {
	*endpoint
	admin   string
	file    string
	conf    string
	deaths  int
	reloads int
}

func startTrafficProxy(t *testing.T, mortals []*mortal, steady *mortal) *trafficProxy {
	t.Helper()
	var urls []string
	for _, m := range mortals {
		urls = append(urls, fmt.Sprintf("%q", "http://"+m.address))
	}
	p := &trafficProxy{file: filepath.Join(t.TempDir(), "tlsproxy.yaml"), conf: fmt.Sprintf(`listen: "127.0.0.1:0"
admin: {listen: "127.0.0.1:0"}
certificates: [{cert: %q, key: %q}]
backends: {urls: [%s], eject_after: 1, eject_for: 100ms, retries: 2}
pools: {steady: {urls: ["http://%s"]}}
hosts: [{names: "*", routes: [{path: /steady/, pool: steady}]}]
timeouts: {backend_idle: 1s, lifetime: 10s, drain: 1m}
limits: {connections: 1000, handshakes: 1000, requests: 1000}
log: {format: json}
`, pki.ServerCert, pki.ServerKey, strings.Join(urls, ", "), steady.address)}
	if err := os.WriteFile(p.file, []byte(p.conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p.endpoint = &endpoint{process: start(t, program(t, proxyBuild, "tlsproxy"), "run", "-c", p.file)}
	for p.address == "" || p.admin == "" {
		var entry struct{ Msg, Address string }
		line := p.line(func(line string) bool { return strings.Contains(line, `"address":`) })
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		switch entry.Msg {
		case "listening":
			p.address = entry.Address
		case "admin listener":
			p.admin = entry.Address
		}
	}
	return p
}

// disturb kills backends in turn, one at a time, and has the configuration read
// again, until stop is closed. No request lives to see two deaths: it could find
// each of its backends dead, one after the other.
func (p *trafficProxy) disturb(t *testing.T, mortals []*mortal, run *traffic, stop chan struct{}) {
	until := func(done func() bool) bool {
		for {
			select {
			case <-stop:
				return false
			case <-time.After(time.Millisecond): // between two looks
			}
			if done() {
				return true
			}
		}
	}
	for until(run.renewed) {
		m := mortals[p.deaths%len(mortals)]
		m.die()
		p.deaths++
		before := run.done.Load()
		until(func() bool { return run.done.Load() > before+2*trafficClients })
		m.live(t)
		run.epoch.Add(1)
		changed := p.conf + fmt.Sprintf("headers: {forwarded: %v}\n", p.reloads%2 == 0)
		if err := replaceFile(p.file, changed); err != nil {
			t.Error(err)
			return
		}
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.reloads++
	}
}

// unforeseen is what the proxy wrote but for what disturb brings about.
func (p *trafficProxy) unforeseen() string {
	foreseen := regexp.MustCompile(`"msg":"(reloaded|changed|backend ejected|backend is back)"`)
	lines := slices.DeleteFunc(strings.Split(p.written(), "\n"), foreseen.MatchString)
	return strings.Join(lines[max(0, len(lines)-100):], "\n")
}

// replaceFile puts a file in place of another at once: the proxy may be reading it.
func replaceFile(name, content string) error {
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// gauges are what the proxy holds when it has nothing to do.
type gauges struct{ goroutines, descriptors, heap float64 }

// gauges waits until no client is connected and no connection to a backend is
// left, and collects garbage first.
func (p *trafficProxy) gauges() gauges {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	var last gauges
	for {
		p.fetch("/debug/pprof/heap?gc=1")
		text := p.fetch("/metrics")
		now := gauges{gauge(p.t, text, "go_goroutines"), gauge(p.t, text, "process_open_fds"), gauge(p.t, text, "go_memstats_heap_alloc_bytes")}
		if gauge(p.t, text, "tlsproxy_connections") == 0 && now.goroutines == last.goroutines && now.descriptors == last.descriptors {
			return now
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the proxy does not come to rest: %+v", now)
		}
		last = now
		time.Sleep(1500 * time.Millisecond) // longer than connections to backends are kept
	}
}

func (p *trafficProxy) fetch(path string) string {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

func gauge(t testing.TB, text, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in the metrics", name)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func roots(t *testing.T) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(pki.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool
}

// traffic is the clients.
type traffic struct {
	t     *testing.T
	proxy *trafficProxy
	roots *x509.CertPool

	done, failed, abandoned atomic.Int64

	epoch atomic.Int64                 // how often a backend has come back
	begun [trafficClients]atomic.Int64 // in which the request of each client began; idle: it has none
}

const idle = -1

// renewed reports whether every request under way began after the latest return
// of a backend.
func (tr *traffic) renewed() bool {
	now := tr.epoch.Load()
	for i := range tr.begun {
		if e := tr.begun[i].Load(); e != idle && e < now {
			return false
		}
	}
	return true
}

// trafficClients work side by side.
const trafficClients = 16

// perConnection is after how many requests a client makes new connections.
const perConnection = 100

// send makes so many requests and closes all connections.
func (tr *traffic) send(n int) {
	var tickets atomic.Int64
	var working sync.WaitGroup
	for i := range trafficClients {
		working.Go(func() {
			c := &trafficClient{traffic: tr, http1: tr.client(false), http2: tr.client(true)}
			defer c.close()
			defer tr.begun[i].Store(idle)
			for {
				ticket := tickets.Add(1)
				if ticket > int64(n) {
					return
				}
				tr.begun[i].Store(tr.epoch.Load())
				c.one(uint64(ticket))
				if ticket%perConnection == 0 {
					c.close()
				}
			}
		})
	}
	working.Wait()
}

func (tr *traffic) client(http2 bool) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", tr.proxy.address)
		},
		TLSClientConfig:    &tls.Config{RootCAs: tr.roots, ServerName: "localhost"},
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	return &http.Client{Transport: transport}
}

type trafficClient struct {
	*traffic
	http1, http2 *http.Client
}

func (c *trafficClient) close() {
	c.http1.CloseIdleConnections()
	c.http2.CloseIdleConnections()
}

// one makes a request of a kind that its number decides.
func (c *trafficClient) one(ticket uint64) {
	client := c.http1
	if ticket%2 == 0 {
		client = c.http2
	}
	var err error
	switch ticket % 20 {
	case 7, 8:
		err = c.post(client, ticket)
	case 13:
		err = c.socket(ticket)
	case 16, 17:
		c.abandon(client, ticket)
	default:
		err = c.get(client, ticket)
	}
	c.done.Add(1)
	if err != nil && c.failed.Add(1) <= 20 {
		c.t.Errorf("request %d: %v", ticket, err)
	}
}

func (c *trafficClient) get(client *http.Client, ticket uint64) error {
	n := int(ticket*7919) % 2000
	response, err := client.Get(fmt.Sprintf("https://localhost/?seed=%d&n=%d", ticket, n))
	if err != nil {
		return err
	}
	return check(response, content(ticket, n))
}

func (c *trafficClient) post(client *http.Client, ticket uint64) error {
	body := content(ticket, int(ticket*104729)%(64<<10))
	response, err := client.Post("https://localhost/steady/", "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return check(response, body)
}

func check(response *http.Response, want []byte) error {
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.100s", response.StatusCode, got)
	case !bytes.Equal(got, want):
		return fmt.Errorf("%d bytes that are not the %d expected", len(got), len(want))
	}
	return nil
}

// socket exchanges a few messages over a WebSocket.
func (c *trafficClient) socket(ticket uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, _, err := websocket.Dial(ctx, "wss://localhost/steady/socket", &websocket.DialOptions{HTTPClient: c.http1})
	if err != nil {
		return err
	}
	defer s.CloseNow()
	for i := range uint64(4) {
		message := content(ticket+i, int(ticket*31+i*1009)%(16<<10))
		if err := s.Write(ctx, websocket.MessageBinary, message); err != nil {
			return err
		}
		if _, got, err := s.Read(ctx); err != nil || !bytes.Equal(got, message) {
			return fmt.Errorf("message of %d bytes: %d came back, %w", len(message), len(got), err)
		}
	}
	return s.Close(websocket.StatusNormalClosure, "")
}

// abandon gives a request up: some before the answer, some within it.
func (c *trafficClient) abandon(client *http.Client, ticket uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := &interrupted{content: content(ticket, 1<<20), after: int(ticket*7) % (1 << 20), cancel: cancel}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://localhost/steady/", body)
	if err != nil {
		c.t.Error(err)
		return
	}
	response, err := client.Do(r)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		c.t.Errorf("request %d was given up, and ended with %v", ticket, err)
	}
	c.abandoned.Add(1)
}

// interrupted is a body whose reader is cancelled before its end.
type interrupted struct {
	content []byte
	after   int
	cancel  context.CancelFunc
}

func (b *interrupted) Read(p []byte) (int, error) {
	if b.after <= 0 {
		b.cancel()
		return 0, context.Canceled
	}
	n := copy(p, b.content)
	b.content, b.after = b.content[n:], b.after-n
	return n, nil
}
