package accesslog

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fullClient fills every field that a client's connection can have, as far as text
// fills them.
func fullClient(text string) Client {
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: text}}
	return Client{Connection: 7, Remote: "192.0.2.1:1234", Via: "10.0.0.1:4321", UniqueID: text, SNI: text, Handshake: time.Millisecond, Queue: time.Microsecond, Batch: 2 * time.Microsecond, SignQueue: 3 * time.Microsecond, SignBatch: 4 * time.Microsecond,
		TLS: &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, CurveID: tls.X25519MLKEM768, DidResume: true,
			NegotiatedProtocol: text, PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}}
}

func fullRequest(text string) *Request {
	return &Request{Client: fullClient(text), Proto: "HTTP/2.0", Method: text, Host: text, Path: text, Status: 200, Received: 1, Sent: 2,
		Duration: time.Second, Route: "/api/", Pool: "api", Backend: "10.0.0.1:80", Answered: time.Millisecond, TraceID: "0af7651916cd43dd8448eb211c80319c"}
}

func fullConnection(text string) *Connection {
	return &Connection{Client: fullClient(text), Mode: "tcp", Pool: "db", Backend: "10.0.0.1:80", Received: 1, Sent: 2, Duration: time.Second, Connected: time.Millisecond}
}

// written returns the fields of a line.
func written(t *testing.T, log func(*slog.Logger, slog.Level)) map[string]any {
	t.Helper()
	var out bytes.Buffer
	log(slog.New(slog.NewJSONHandler(&out, nil)), slog.LevelInfo)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", &out, err)
	}
	for _, key := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(line, key)
	}
	return line
}

// TestDocumented holds the documentation to what is written, and the other way round.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "logging.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{} // names by line
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (yes|) ?\\| (yes|) ?\\|").FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			for i, line := range []string{"request", "connection"} {
				if row[2+i] == "yes" {
					documented[line] = append(documented[line], name[1])
				}
			}
		}
	}
	request := written(t, fullRequest("x").Log)
	aborted := fullRequest("x")
	aborted.Status = 0
	maps.Copy(request, written(t, aborted.Log))
	for line, fields := range map[string]map[string]any{"request": request, "connection": written(t, fullConnection("x").Log)} {
		got, want := slices.Sorted(maps.Keys(fields)), slices.Sorted(slices.Values(documented[line]))
		if !slices.Equal(got, want) {
			t.Errorf("%s: written are\n%q\ndocumented are\n%q", line, got, want)
		}
	}
}

// TestBounds: whatever clients fill the fields with, a line stays within a bound, and
// is one line.
func TestBounds(t *testing.T) {
	const most = 16 << 10
	flood := strings.Repeat("\n\x1b\xff", 1<<20)
	for _, log := range []func(*slog.Logger, slog.Level){fullRequest(flood).Log, fullConnection(flood).Log} {
		var out bytes.Buffer
		log(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo)
		if n := out.Len(); n > most || strings.Count(out.String(), "\n") != 1 || strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\xff") {
			t.Errorf("%d bytes: %.300q", n, out.String())
		}
	}
}

// TestWhatIsAbsent: a field is there where it says something.
func TestWhatIsAbsent(t *testing.T) {
	bare := &Request{Client: Client{Connection: 1, Remote: "r"}, Proto: "HTTP/1.1", Method: "GET", Host: "h", Path: "/"}
	if got, want := slices.Sorted(maps.Keys(written(t, bare.Log))), []string{"aborted", "bytes", "bytes_received", "connection", "duration", "host", "method", "path", "proto", "remote"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	unverified := fullRequest("x")
	unverified.Client.TLS.VerifiedChains = nil
	unverified.Client.Queue, unverified.Client.Batch, unverified.Client.SignQueue, unverified.Client.SignBatch = 0, 0, 0, 0
	for _, name := range []string{"client_cert", "kem_queue", "kem_batch", "sign_queue", "sign_batch"} {
		if _, ok := written(t, unverified.Log)[name]; ok {
			t.Errorf("%s is written", name)
		}
	}
	inVain := fullRequest("x")
	inVain.Client.Batch, inVain.Client.SignBatch = 0, 0
	if got := written(t, inVain.Log); got["kem_batch"] != 0.0 || got["kem_queue"] != 1000.0 || got["sign_batch"] != 0.0 || got["sign_queue"] != 3000.0 {
		t.Errorf("%v", got)
	}
}

// TestCertificateNames: a certificate without a subject has another name.
func TestCertificateNames(t *testing.T) {
	spiffe, err := url.Parse("spiffe://td/a")
	if err != nil {
		t.Fatal(err)
	}
	for want, cert := range map[string]*x509.Certificate{
		"CN=a,O=b":          {Subject: pkix.Name{CommonName: "a", Organization: []string{"b"}}, URIs: []*url.URL{spiffe}},
		"uri:spiffe://td/a": {URIs: []*url.URL{spiffe}, DNSNames: []string{"d"}},
		"dns:d":             {DNSNames: []string{"d"}, EmailAddresses: []string{"e@f"}},
		"email:e@f":         {EmailAddresses: []string{"e@f"}},
		"":                  {},
	} {
		if got := nameOf(cert); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
