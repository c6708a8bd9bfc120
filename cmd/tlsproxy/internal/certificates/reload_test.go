package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, cert, key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue makes a chain and a key as PEM.
func (a *authority) issue(serial int64, names ...string) (chain, key []byte) {
	k := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	chain = append(pemOf("CERTIFICATE", der), pemOf("CERTIFICATE", a.cert.Raw)...)
	return chain, pemOf("PRIVATE KEY", pkcs8(a.t, k))
}

func pkcs8(t testing.TB, key crypto.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// put writes a file, and the folders that lead to it.
func put(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace renames a new file over an old one, as careful writers do.
func replace(t testing.TB, file string, data []byte) {
	t.Helper()
	put(t, file+".new", data)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, sources ...Source) *Store {
	t.Helper()
	s, faults, err := Open(sources, Options{})
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	if s.Changed() {
		t.Fatal("changed before anything was touched")
	}
	return s
}

func reload(t testing.TB, s *Store) (*Store, []*Fault) {
	t.Helper()
	next, faults, err := s.Reload(s.sources, false)
	if err != nil {
		t.Fatal(err)
	}
	if next.Changed() {
		t.Fatal("changed since it was read")
	}
	return next, faults
}

// serial is the number of the certificate that a client gets for a name.
func serial(t testing.TB, s *Store, name string) int64 {
	t.Helper()
	cert, err := s.Certificate(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf.SerialNumber.Int64()
}

// TestFolder has every layout of a folder that is known.
func TestFolder(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	issue := func(serial int64, cert, key string) {
		chain, k := ca.issue(serial, fmt.Sprintf("%d.example", serial))
		if cert == key {
			chain, k = append(chain, k...), nil
		}
		put(t, filepath.Join(dir, cert), chain)
		if k != nil {
			put(t, filepath.Join(dir, key), k)
		}
	}
	issue(2, "a.crt", "a.key")
	issue(3, "b.cer", "b.key")
	issue(4, "c.pem", "c.key")
	issue(5, "d.pem", "d.pem")
	issue(6, "certbot/fullchain.pem", "certbot/privkey.pem")
	put(t, filepath.Join(dir, "certbot/chain.pem"), pemOf("CERTIFICATE", ca.cert.Raw))
	put(t, filepath.Join(dir, "certbot/cert.pem"), pemOf("CERTIFICATE", ca.cert.Raw))
	issue(7, "..2026/tls.crt", "..2026/tls.key")
	if err := os.Symlink("..2026", filepath.Join(dir, "kubernetes")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "README"), []byte("not a certificate"))
	put(t, filepath.Join(dir, "alone.key"), []byte("not looked at"))
	put(t, filepath.Join(dir, "deep/er/x.crt"), []byte("not looked at"))
	s := open(t, Source{Folder: dir})
	for want := int64(2); want <= 7; want++ {
		if got := serial(t, s, fmt.Sprintf("%d.example", want)); got != want {
			t.Errorf("%d.example: got the certificate with number %d", want, got)
		}
	}
	if n := len(s.Certificates()); n != 6 {
		t.Errorf("%d certificates: %+v", n, s.Certificates())
	}
	empty := t.TempDir()
	if _, faults, err := Open([]Source{{Folder: empty}}, Options{}); err == nil || len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), empty+" holds no certificate: neither") {
		t.Errorf("empty folder: %v %v", err, faults)
	}
}

// TestReload goes through what happens to files, and after each change looks at
// what clients get.
func TestReload(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	chain, key := ca.issue(1, "a.example")
	put(t, file("a.crt"), chain)
	put(t, file("a.key"), key)
	other, otherKey := ca.issue(2, "b.example")
	put(t, file("b.crt"), other)
	put(t, file("b.key"), otherKey)
	s := open(t, Source{Folder: dir}, Source{Pair: Pair{file("a.crt"), file("a.key")}})
	if len(s.Certificates()) != 2 {
		t.Fatalf("named twice, held %d times", len(s.Certificates()))
	}
	old := s

	renewed, renewedKey := ca.issue(3, "a.example")
	replace(t, file("a.crt"), renewed)
	if !s.Changed() {
		t.Fatal("a renewed chain goes unnoticed")
	}
	s, faults := reload(t, s)
	if len(faults) != 1 || !faults[0].Kept || faults[0].Known || !strings.HasSuffix(faults[0].Error(), "private key does not match public key; what was read before stays in use") {
		t.Errorf("chain without its key: %v", faults)
	}
	if got := serial(t, s, "a.example"); got != 1 {
		t.Errorf("chain without its key: clients get %d", got)
	}
	if s, faults = reload(t, s); len(faults) != 1 || !faults[0].Known {
		t.Errorf("the same once more: %v", faults)
	}
	replace(t, file("a.key"), renewedKey)
	if s, faults = reload(t, s); len(faults) > 0 || serial(t, s, "a.example") != 3 {
		t.Errorf("key too: %v, clients get %d", faults, serial(t, s, "a.example"))
	}
	if got := serial(t, old, "a.example"); got != 1 {
		t.Errorf("the old store gives %d", got)
	}

	put(t, file("b.crt"), []byte("half"))
	if s, faults = reload(t, s); len(faults) != 1 || serial(t, s, "b.example") != 2 {
		t.Errorf("half a file: %v, clients get %d", faults, serial(t, s, "b.example"))
	}
	if err := os.RemoveAll(file("b.crt")); err != nil {
		t.Fatal(err)
	}
	if s, faults = reload(t, s); len(faults) > 0 || serial(t, s, "b.example") != 3 || len(s.Certificates()) != 1 {
		t.Errorf("removed from the folder: %v, clients get %d", faults, serial(t, s, "b.example"))
	}
	added, addedKey := ca.issue(4, "c.example")
	put(t, file("sub/c.crt"), added)
	put(t, file("sub/c.key"), addedKey)
	if !s.Changed() {
		t.Fatal("an added file goes unnoticed")
	}
	if s, faults = reload(t, s); len(faults) > 0 || serial(t, s, "c.example") != 4 {
		t.Errorf("added: %v, clients get %d", faults, serial(t, s, "c.example"))
	}

	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if s, faults = reload(t, s); len(faults) == 0 || !faults[0].Kept || !errors.Is(faults[0], fs.ErrNotExist) || serial(t, s, "c.example") != 4 {
		t.Errorf("folder gone: %v, clients get %d", faults, serial(t, s, "c.example"))
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if s, faults = reload(t, s); len(faults) > 0 || serial(t, s, "a.example") != 3 || serial(t, s, "c.example") != 4 {
		t.Errorf("folder back: %v", faults)
	}
}

// TestReloadOfTheSame keeps what it has, parsed, even if everything is read again.
func TestReloadOfTheSame(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	chain, key := ca.issue(1, "a.example")
	pair := Pair{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}
	put(t, pair.Cert, chain)
	put(t, pair.Key, key)
	s := open(t, Source{Pair: pair})
	before, _ := s.Certificate(&tls.ClientHelloInfo{})
	for _, all := range []bool{false, true} {
		next, faults, err := s.Reload(s.sources, all)
		if err != nil || len(faults) > 0 {
			t.Fatal(err, faults)
		}
		if after, _ := next.Certificate(&tls.ClientHelloInfo{}); after != before {
			t.Errorf("all %v: parsed again", all)
		}
	}
	// A file of the same size and time at the same place: only reading tells.
	info, err := os.Stat(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	put(t, pair.Cert, slices.Concat(chain[:len(chain)-1], []byte(" ")))
	if err := os.Chtimes(pair.Cert, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if s.Changed() {
		t.Error("size, time and place are the same")
	}
}

// TestSymlinkSwap renews as Kubernetes does: a new folder, then one link that is
// renamed over the old.
func TestSymlinkSwap(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	mount := func(version string, serial int64) {
		chain, key := ca.issue(serial, "a.example")
		put(t, filepath.Join(dir, version, "tls.crt"), chain)
		put(t, filepath.Join(dir, version, "tls.key"), key)
		if err := os.Symlink(version, filepath.Join(dir, "..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount("..1", 1)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	pair := Pair{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	for _, source := range []Source{{Pair: pair}, {Folder: dir}} {
		s := open(t, source)
		next := serial(t, s, "") + 1
		mount(fmt.Sprintf("..%d", next), next)
		if !s.Changed() {
			t.Fatalf("%+v: the swap goes unnoticed", source)
		}
		if s, faults := reload(t, s); len(faults) > 0 || serial(t, s, "") != next {
			t.Errorf("%+v: %v, clients get %d", source, faults, serial(t, s, ""))
		}
	}
}

// respond makes an OCSP response.
func (a *authority) respond(serial int64, status int, next time.Duration) []byte {
	r := ocsp.Response{Status: status, SerialNumber: big.NewInt(serial), ThisUpdate: time.Now().Add(-2 * time.Hour), NextUpdate: time.Now().Add(next)}
	if status == ocsp.Revoked {
		r.RevokedAt = r.ThisUpdate
	}
	der, err := ocsp.CreateResponse(a.cert, a.cert, r, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

// TestStaple passes on what is valid, and says what is not.
func TestStaple(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	chain, key := ca.issue(1, "a.example")
	pair := Pair{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}
	put(t, pair.Cert, chain)
	put(t, pair.Key, key)
	s := open(t, Source{Pair: pair})
	good := ca.respond(1, ocsp.Good, time.Hour)
	for _, test := range []struct {
		der     []byte
		problem string
	}{
		{good, ""},
		{ca.respond(1, ocsp.Revoked, time.Hour), "it says that the certificate was revoked at "},
		{ca.respond(1, ocsp.Unknown, time.Hour), "it says that its sender does not know the certificate"},
		{ca.respond(1, ocsp.Good, -time.Minute), "it was valid until "},
		{ca.respond(2, ocsp.Good, time.Hour), "no response matching the supplied certificate"},
		{newAuthority(t).respond(1, ocsp.Good, time.Hour), "bad OCSP signature: "},
		{[]byte("nothing"), "asn1: "},
	} {
		replace(t, pair.stapleFile(), test.der)
		if !s.Changed() {
			t.Fatal("a new response goes unnoticed")
		}
		var faults []*Fault
		s, faults = reload(t, s)
		cert, err := s.Certificate(&tls.ClientHelloInfo{})
		if err != nil || len(faults) > 0 {
			t.Fatal(err, faults)
		}
		info := s.Certificates()[0]
		if test.problem == "" {
			if string(cert.OCSPStaple) != string(test.der) || info.Problem != "" || info.StapleUntil.IsZero() {
				t.Errorf("a valid response: %+v", info)
			}
			continue
		}
		if cert.OCSPStaple != nil || !strings.HasPrefix(info.Problem, pair.stapleFile()+" is not passed on: "+test.problem) {
			t.Errorf("want %s, got %+v", test.problem, info)
		}
	}
	replace(t, pair.stapleFile(), good)
	s, _ = reload(t, s)
	s.entries[0].staple.until = time.Now()
	if cert, err := s.Certificate(&tls.ClientHelloInfo{}); err != nil || cert.OCSPStaple != nil {
		t.Errorf("a response is passed on after its time: %v", err)
	}
}

// TestManyNames has 20,000 hosts (see manyHosts) with a certificate each, looks each up from
// several goroutines while half of them are renewed, and bounds the memory.
func TestManyNames(t *testing.T) {
	const hosts, parsed = manyHosts, manyHosts / 20
	ca, dir := newAuthority(t), t.TempDir()
	name := func(i int) string { return fmt.Sprintf("host-%d.example", i) }
	write := func(i int, serial int64, put func(testing.TB, string, []byte)) {
		chain, key := ca.issue(serial, name(i))
		put(t, filepath.Join(dir, name(i)+".pem"), append(chain, key...))
	}
	for i := range hosts {
		write(i, int64(i+1), put)
	}
	before := heap()
	start := time.Now()
	s, faults, err := Open([]Source{{Folder: dir}}, Options{Parsed: parsed})
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	each := (heap() - before) / hosts
	t.Logf("%d certificates read in %v; %d bytes each", hosts, time.Since(start), each)
	if each > 4096 {
		t.Errorf("%d bytes of memory for each certificate", each)
	}
	look := func(s *Store, renewed bool, step int) {
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				for i := w * step; i < hosts; i += 4 * step {
					want := int64(i + 1)
					if renewed && i%100 == 0 {
						want += hosts
					}
					if got := serial(t, s, name(i)); got != want {
						t.Errorf("%s: number %d, want %d", name(i), got, want)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	look(s, false, 1)
	for i := 0; i < hosts; i += 100 {
		write(i, int64(i+1+hosts), replace)
	}
	start = time.Now()
	if !s.Changed() {
		t.Fatal("the change goes unnoticed")
	}
	looked := time.Since(start)
	start = time.Now()
	next, faults := reload(t, s)
	t.Logf("the change noticed after %v, %d of them read again in %v", looked, hosts/100, time.Since(start))
	if len(faults) > 0 {
		t.Error(faults)
	}
	look(next, true, 1)
	look(s, false, 100) // handshakes under way go on with the old
	if n := s.parsed.Len(); n > parsed {
		t.Errorf("%d parsed certificates are held, the bound is %d", n, parsed)
	}
	if &s.entries[0].chain[1][0] != &s.entries[1].chain[1][0] {
		t.Error("the issuer is held twice")
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkCertificate is what a handshake spends on choosing, the certificate
// held parsed and not.
func BenchmarkCertificate(b *testing.B) {
	ca, dir := newAuthority(b), b.TempDir()
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("host-%d.example", i))
		chain, key := ca.issue(int64(i+1), names[i])
		put(b, filepath.Join(dir, names[i]+".pem"), append(chain, key...))
	}
	for _, parsed := range []int{1000, 1} {
		b.Run(fmt.Sprintf("parsed=%d", parsed), func(b *testing.B) {
			s, _, err := Open([]Source{{Folder: dir}}, Options{Parsed: parsed})
			if err != nil {
				b.Fatal(err)
			}
			hello := &tls.ClientHelloInfo{}
			for i := 0; b.Loop(); i++ {
				hello.ServerName = names[i%len(names)]
				if _, err := s.Certificate(hello); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
