package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func generate(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func open(t *testing.T, log *slog.Logger) (*Keys, *provider.Provider) {
	t.Helper()
	p, err := provider.Open(provider.Config{KeyPoolSize: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return New(p, log), p
}

// A key on P-256 gets one signer, for as many handshakes as there are; the
// certificate is otherwise the same, and left as it is.
func TestCertificate(t *testing.T) {
	keys, p := open(t, slog.New(slog.DiscardHandler))
	key := generate(t, elliptic.P256())
	cert := &tls.Certificate{Certificate: [][]byte{{1}}, PrivateKey: key, OCSPStaple: []byte{2}}
	signers := make([]crypto.Signer, 16)
	var wg sync.WaitGroup
	for i := range signers {
		wg.Go(func() {
			got := keys.Certificate(cert)
			signers[i] = got.PrivateKey.(crypto.Signer)
			digest := make([]byte, 32)
			sig, err := signers[i].Sign(rand.Reader, digest, crypto.SHA256)
			if err != nil || !ecdsa.VerifyASN1(&key.PublicKey, digest, sig) || &got.Certificate[0][0] != &cert.Certificate[0][0] || got.OCSPStaple[0] != 2 {
				t.Errorf("%x (%v)", sig, err)
			}
		})
	}
	wg.Wait()
	for _, s := range signers {
		if _, ok := s.(*provider.Signer); !ok || s != signers[0] {
			t.Errorf("a %T, not the same", s)
		}
	}
	if st := p.Stats().Signatures; st.Served != uint64(len(signers)) {
		t.Errorf("%+v", st)
	}
	if cert.PrivateKey != key {
		t.Error("the certificate was changed")
	}
}

// A key that is in use keeps its signer; one that is not, and its signer, are
// forgotten.
func TestGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, _ := open(t, slog.New(slog.DiscardHandler))
		used, retired := generate(t, elliptic.P256()), generate(t, elliptic.P256())
		signer := keys.Certificate(&tls.Certificate{PrivateKey: used}).PrivateKey
		forgotten := weak.Make(keys.Certificate(&tls.Certificate{PrivateKey: retired}).PrivateKey.(*provider.Signer))
		key := weak.Make(retired)
		for range 3 {
			time.Sleep(generationTime - time.Minute)
			if got := keys.Certificate(&tls.Certificate{PrivateKey: used}).PrivateKey; got != signer {
				t.Error("a key in use got another signer")
			}
		}
		runtime.GC()
		if forgotten.Value() != nil || key.Value() != nil {
			t.Error("a key that is not in use is kept")
		}
	})
}

// However many keys there are, so many signers are kept and no more.
func TestBound(t *testing.T) {
	keys, _ := open(t, slog.New(slog.DiscardHandler))
	key := generate(t, elliptic.P256())
	for range 2*generationKeys + 10 {
		copied := *key
		keys.Certificate(&tls.Certificate{PrivateKey: &copied})
	}
	if n := len(keys.current) + len(keys.before); n > 2*generationKeys || n < generationKeys {
		t.Errorf("%d signers", n)
	}
}

// Every other key stays as it is.
func TestOtherKeys(t *testing.T) {
	var log bytes.Buffer
	keys, _ := open(t, slog.New(slog.NewTextHandler(&log, nil)))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.PrivateKey{generate(t, elliptic.P384()), ed, nil} {
		cert := &tls.Certificate{PrivateKey: key}
		if keys.Certificate(cert) != cert {
			t.Errorf("a %T got a signer", key)
		}
	}
	odd := *generate(t, elliptic.P256())
	odd.PublicKey = generate(t, elliptic.P256()).PublicKey
	for range 3 {
		if got := keys.Certificate(&tls.Certificate{PrivateKey: &odd}); got.PrivateKey != &odd {
			t.Errorf("a %T for a key that the provider refuses", got.PrivateKey)
		}
	}
	if n := strings.Count(log.String(), "signs on the CPU only"); n != 1 {
		t.Errorf("logged %q", &log)
	}
}
