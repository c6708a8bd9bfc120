package provider

import (
	"bytes"
	"crypto/ecdh"
	"errors"
	"strings"
	"testing"

	"github.com/cloudflare/circl/kem"
)

func TestSchemeByName(t *testing.T) {
	p := openTest(t, Config{})
	all := append(p.Schemes(), p.Hybrids()...)
	var names []string
	for _, s := range all {
		names = append(names, s.Name())
		for _, name := range []string{s.Name(), strings.ToUpper(s.Name()), strings.ToLower(s.Name())} {
			if got := p.SchemeByName(name); got == nil || got.Name() != s.Name() {
				t.Errorf("SchemeByName(%q) = %v", name, got)
			}
		}
	}
	if got, want := strings.Join(names, " "), "CTRU-Prime-653 CTRU-Prime-761 CTRU-Prime-1277 X25519CTRUPrime653 X25519CTRUPrime761 X25519CTRUPrime1277"; got != want {
		t.Errorf("names %s, want %s", got, want)
	}
	if got := p.SchemeByName("X25519"); got != nil {
		t.Errorf("SchemeByName(X25519) = %v, want nil", got)
	}
}

// Every scheme keeps circl's contract.
func TestSchemeContract(t *testing.T) {
	p := openTest(t, Config{})
	all := append(p.Schemes(), p.Hybrids()...)
	for i, s := range all {
		t.Run(s.Name(), func(t *testing.T) {
			pk, sk, err := s.GenerateKeyPair()
			if err != nil {
				t.Fatal(err)
			}
			packedPK, packedSK := marshal(t, pk), marshal(t, sk)
			if len(packedPK) != s.PublicKeySize() || len(packedSK) != s.PrivateKeySize() {
				t.Errorf("keys of %d and %d bytes, want %d and %d", len(packedPK), len(packedSK), s.PublicKeySize(), s.PrivateKeySize())
			}
			pk2, err := s.UnmarshalBinaryPublicKey(packedPK)
			if err != nil {
				t.Fatal(err)
			}
			sk2, err := s.UnmarshalBinaryPrivateKey(packedSK)
			if err != nil {
				t.Fatal(err)
			}
			if !pk.Equal(pk2) || !sk.Equal(sk2) || !sk2.Public().Equal(pk) || pk.Scheme().Name() != s.Name() || sk.Scheme().Name() != s.Name() {
				t.Error("a key does not equal itself after packing")
			}
			other, otherSK := s.DeriveKeyPair(random(s.SeedSize()))
			if pk.Equal(other) || sk.Equal(otherSK) {
				t.Error("two keys are equal")
			}
			ct, ss, err := pk.Scheme().Encapsulate(pk2)
			if err != nil || len(ct) != s.CiphertextSize() || len(ss) != s.SharedKeySize() {
				t.Fatalf("%d bytes, %d bytes, %v", len(ct), len(ss), err)
			}
			got, err := s.Decapsulate(sk2, ct)
			if err != nil || !bytes.Equal(got, ss) {
				t.Errorf("the keys differ (%v)", err)
			}

			foreign := all[(i+1)%len(all)]
			fpk, fsk := foreign.DeriveKeyPair(random(foreign.SeedSize()))
			_, _, errPK := s.Encapsulate(fpk)
			_, errSK := s.Decapsulate(fsk, ct)
			_, _, errSeed := s.EncapsulateDeterministically(pk, random(s.EncapsulationSeedSize()+1))
			_, errCT := s.Decapsulate(sk, ct[1:])
			_, errPKSize := s.UnmarshalBinaryPublicKey(packedPK[1:])
			_, errSKSize := s.UnmarshalBinaryPrivateKey(packedSK[1:])
			for want, err := range map[error]error{kem.ErrSeedSize: errSeed, kem.ErrCiphertextSize: errCT, kem.ErrPubKeySize: errPKSize, kem.ErrPrivKeySize: errSKSize} {
				if !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			for _, err := range []error{errPK, errSK} {
				if !errors.Is(err, kem.ErrTypeMismatch) {
					t.Errorf("%v, want %v", err, kem.ErrTypeMismatch)
				}
			}
			if pk.Equal(fpk) || sk.Equal(fsk) {
				t.Error("keys of two schemes are equal")
			}
			bad := bytes.Clone(packedPK)
			copy(bad[len(bad)-8:], bytes.Repeat([]byte{0xff}, 8))
			if _, err := s.UnmarshalBinaryPublicKey(bad); err == nil {
				t.Error("a public key out of range was accepted")
			}
			defer func() {
				if recover() == nil {
					t.Error("DeriveKeyPair took a short seed")
				}
			}()
			s.DeriveKeyPair(random(s.SeedSize() - 1))
		})
	}
}

func marshal(t *testing.T, k interface{ MarshalBinary() ([]byte, error) }) []byte {
	t.Helper()
	b, err := k.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A served scheme gives the bytes of package ctruprime, and takes its keys.
func TestServedEqualsPlain(t *testing.T) {
	p := openTest(t, Config{})
	for i, s := range sets {
		served := p.Schemes()[i]
		seed, encSeed := random(s.SeedSize()), random(s.EncapsulationSeedSize())
		pk, sk := s.DeriveKeyPair(seed)
		servedPK, servedSK := served.DeriveKeyPair(seed)
		if !bytes.Equal(marshal(t, pk), marshal(t, servedPK)) || !bytes.Equal(marshal(t, sk), marshal(t, servedSK)) {
			t.Errorf("%s: keys differ", s.Name())
		}
		ct, ss, err := s.EncapsulateDeterministically(pk, encSeed)
		if err != nil {
			t.Fatal(err)
		}
		servedCT, servedSS, err := served.EncapsulateDeterministically(pk, encSeed)
		if err != nil || !bytes.Equal(ct, servedCT) || !bytes.Equal(ss, servedSS) {
			t.Errorf("%s: encapsulations differ (%v)", s.Name(), err)
		}
		if got, err := served.Decapsulate(sk, ct); err != nil || !bytes.Equal(got, ss) {
			t.Errorf("%s: decapsulations differ (%v)", s.Name(), err)
		}
	}
}

// A hybrid is its two halves, byte for byte, and speaks to the calls that TLS makes.
func TestHybridBytes(t *testing.T) {
	p := openTest(t, Config{})
	for i, s := range sets {
		h := p.Hybrids()[i]
		seed, encSeed := random(96), random(64)
		pk, sk := h.DeriveKeyPair(seed)
		kemPK, kemSK := s.DeriveKeyPair(seed[32:])
		x, err := ecdh.X25519().NewPrivateKey(seed[:32])
		if err != nil {
			t.Fatal(err)
		}
		if want := append(x.PublicKey().Bytes(), marshal(t, kemPK)...); !bytes.Equal(marshal(t, pk), want) {
			t.Errorf("%s: public key", h.Name())
		}
		if want := append(bytes.Clone(seed[:32]), marshal(t, kemSK)...); !bytes.Equal(marshal(t, sk), want) {
			t.Errorf("%s: private key", h.Name())
		}
		ct, ss, err := h.EncapsulateDeterministically(pk, encSeed)
		if err != nil {
			t.Fatal(err)
		}
		ephemeral, err := ecdh.X25519().NewPrivateKey(encSeed[:32])
		if err != nil {
			t.Fatal(err)
		}
		kemCT, kemSS, err := s.EncapsulateDeterministically(kemPK, encSeed[32:])
		if err != nil {
			t.Fatal(err)
		}
		classical, err := ephemeral.ECDH(x.PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ct, append(ephemeral.PublicKey().Bytes(), kemCT...)) || !bytes.Equal(ss, append(classical, kemSS...)) {
			t.Errorf("%s: ciphertext or secret is not x25519 || kem", h.Name())
		}
		got, err := p.ClientFinish(t.Context(), s, x, marshal(t, kemSK), ct)
		if err != nil || !bytes.Equal(got, ss) {
			t.Errorf("%s: ClientFinish differs (%v)", h.Name(), err)
		}
		share, secret, err := p.ServerExchange(t.Context(), s, marshal(t, pk))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.Decapsulate(sk, share); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%s: Decapsulate of a server's share differs (%v)", h.Name(), err)
		}
		if _, _, err := h.EncapsulateDeterministically(mustPublic(t, h, append(make([]byte, 32), marshal(t, kemPK)...)), encSeed); err == nil {
			t.Errorf("%s: a point of low order was accepted", h.Name())
		}
	}
}

func mustPublic(t *testing.T, s kem.Scheme, b []byte) kem.PublicKey {
	t.Helper()
	pk, err := s.UnmarshalBinaryPublicKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return pk
}
