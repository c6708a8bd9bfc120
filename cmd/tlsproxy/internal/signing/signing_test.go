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

// signerOf is the provider's signer behind a certificate's key; nil: there is none.
func signerOf(t *testing.T, cert *tls.Certificate) *provider.Signer {
	key, ok := cert.PrivateKey.(telling)
	if !ok {
		t.Errorf("the key is a %T", cert.PrivateKey)
	}
	return key.Signer
}

// A key on P-256 gets one signer, for as many handshakes as there are; the
// certificate is otherwise the same, and left as it is.
func TestCertificate(t *testing.T) {
	keys, p := open(t, slog.New(slog.DiscardHandler))
	key := generate(t, elliptic.P256())
	cert := &tls.Certificate{Certificate: [][]byte{{1}}, PrivateKey: key, OCSPStaple: []byte{2}}
	signers := make([]*provider.Signer, 16)
	var wg sync.WaitGroup
	for i := range signers {
		wg.Go(func() {
			var told []Signature
			got := keys.Certificate(cert, func(s Signature) { told = append(told, s) })
			signers[i] = signerOf(t, got)
			digest := make([]byte, 32)
			sig, err := got.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest, crypto.SHA256)
			if len(told) != 1 || told[0].Duration <= 0 || told[0].Queue != 0 || told[0].Batch != 0 {
				t.Errorf("told %+v of a signature by the CPU", told)
			}
			if err != nil || !ecdsa.VerifyASN1(&key.PublicKey, digest, sig) || &got.Certificate[0][0] != &cert.Certificate[0][0] || got.OCSPStaple[0] != 2 {
				t.Errorf("%x (%v)", sig, err)
			}
		})
	}
	wg.Wait()
	for _, s := range signers {
		if s == nil || s != signers[0] {
			t.Errorf("%p is not the same", s)
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
		signer := signerOf(t, keys.Certificate(&tls.Certificate{PrivateKey: used}, nil))
		forgotten := weak.Make(signerOf(t, keys.Certificate(&tls.Certificate{PrivateKey: retired}, nil)))
		key := weak.Make(retired)
		for range 3 {
			time.Sleep(generationTime - time.Minute)
			if signerOf(t, keys.Certificate(&tls.Certificate{PrivateKey: used}, nil)) != signer {
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
		keys.Certificate(&tls.Certificate{PrivateKey: &copied}, nil)
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
		if keys.Certificate(cert, nil) != cert {
			t.Errorf("a %T got a signer", key)
		}
	}
	odd := *generate(t, elliptic.P256())
	odd.PublicKey = generate(t, elliptic.P256()).PublicKey
	for range 3 {
		if got := keys.Certificate(&tls.Certificate{PrivateKey: &odd}, nil); got.PrivateKey != &odd {
			t.Errorf("a %T for a key that the provider refuses", got.PrivateKey)
		}
	}
	if n := strings.Count(log.String(), "signs on the CPU only"); n != 1 {
		t.Errorf("logged %q", &log)
	}
}
