package ctruprime

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cloudflare/circl/kem"
)

// TestAgainstReference runs the whole KEM beside the reference on fresh seeds,
// tampered ciphertexts included.
func TestAgainstReference(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		for range 4 {
			seed, z, encSeed := r.bytes(SeedSize), r.bytes(RejectionSize), r.bytes(EncapsulationSeedSize)
			v := vector{Seed: seed, Z: z, EncSeed: encSeed}
			v.SK = ref.generate(seed, z)
			v.PK = ref.publicKey(v.SK)
			v.CT, v.Key = ref.encapsulate(v.PK, encSeed)
			v.BadCT = bytes.Clone(v.CT)
			v.BadCT[r.below(len(v.BadCT))] ^= byte(1 + r.below(255))
			v.RejectedKey = ref.decapsulate(v.SK, v.BadCT)
			v.check(t, s)
		}
	})
}

// TestForms compares every form of each operation with the others.
func TestForms(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		keySeed, encSeed := r.bytes(KeySeedSize), r.bytes(EncapsulationSeedSize)
		pk, sk := s.DeriveKeyPair(keySeed)
		packedSK, packedPK := marshal(t, sk), marshal(t, pk)
		if got := make([]byte, s.PrivateKeySize()); s.GenerateKeyBytes(got, keySeed) != nil || !bytes.Equal(got, packedSK) {
			t.Error("GenerateKeyBytes and DeriveKeyPair differ")
		}
		if !bytes.Equal(s.PublicKeyOf(packedSK), packedPK) {
			t.Error("PublicKeyOf and Public differ")
		}

		ct, ss, err := s.EncapsulateDeterministically(pk, encSeed)
		if err != nil {
			t.Fatal(err)
		}
		ct2, ss2 := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
		same := func(what string, err error) {
			t.Helper()
			if err != nil || !bytes.Equal(ct, ct2) || !bytes.Equal(ss, ss2) {
				t.Errorf("%s differs, error %v", what, err)
			}
			clear(ss2)
		}
		same("EncapsulateTo", s.EncapsulateTo(ct2, ss2, pk.(*PublicKey), encSeed))
		clear(ct2)
		same("EncapsulateBytes", s.EncapsulateBytes(ct2, ss2, packedPK, encSeed))
		same("DecapsulateTo", s.DecapsulateTo(ss2, sk.(*PrivateKey), ct))
		same("DecapsulateBytes", s.DecapsulateBytes(ss2, packedSK, ct))
		ss2, err = s.Decapsulate(sk, ct)
		same("Decapsulate", err)

		ct3, ss3, err := s.Encapsulate(pk)
		if err != nil || bytes.Equal(ct3, ct) {
			t.Errorf("Encapsulate repeats itself, error %v", err)
		}
		if got, err := s.Decapsulate(sk, ct3); err != nil || !bytes.Equal(got, ss3) {
			t.Errorf("a random encapsulation decapsulates to another key, error %v", err)
		}
	})
}

func marshal(t testing.TB, key interface{ MarshalBinary() ([]byte, error) }) []byte {
	t.Helper()
	b, err := key.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTampering changes every byte of a ciphertext in turn, and every bit of
// its padding. The key must be the hash of z and of that ciphertext, computed
// here on its own.
func TestTampering(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		packed, sk := r.newKey(t, s)
		ct, ss, err := s.Encapsulate(sk.Public())
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, i int) {
			t.Helper()
			got, err := s.Decapsulate(sk, ct)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, ss) {
				t.Fatalf("%s %d changed, and the key is the same", what, i)
			}
			if want := ref.rejectedKey(packed, ct); !bytes.Equal(got, want) {
				t.Fatalf("%s %d changed: got key %x, want %x", what, i, got, want)
			}
		}
		for i := range ct {
			change := byte(1 + r.below(255))
			ct[i] ^= change
			check("byte", i)
			ct[i] ^= change
		}
		padding := 0
		for i := s.n * int(s.d); i < 8*len(ct); i++ {
			ct[i/8] ^= 1 << (i % 8)
			check("padding bit", i)
			ct[i/8] ^= 1 << (i % 8)
			padding++
		}
		if padding == 0 {
			t.Fatal("no padding")
		}
		if got, err := s.Decapsulate(sk, ct); err != nil || !bytes.Equal(got, ss) {
			t.Fatalf("the ciphertext no longer decapsulates, error %v", err)
		}
	})
}

// TestArbitraryCiphertexts decapsulates strings that no one encapsulated.
func TestArbitraryCiphertexts(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		packed, sk := r.newKey(t, s)
		for _, ct := range [][]byte{
			make([]byte, s.CiphertextSize()),
			bytes.Repeat([]byte{0xff}, s.CiphertextSize()),
			r.bytes(s.CiphertextSize()),
		} {
			got, err := s.Decapsulate(sk, ct)
			if err != nil {
				t.Fatal(err)
			}
			if want := ref.decapsulate(packed, ct); !bytes.Equal(got, want) {
				t.Errorf("%x: got %x, want %x", ct, got, want)
			}
		}
	})
}

// setBits overwrites width bits of data from bit k on.
func setBits(data []byte, k, width, value int) {
	for j := range width {
		i := k + j
		data[i/8] = data[i/8]&^(1<<(i%8)) | byte(value>>j&1)<<(i%8)
	}
}

// checkPublicKey holds every form that takes a packed public key to valid.
func checkPublicKey(t *testing.T, s *Scheme, pk []byte, valid bool) {
	t.Helper()
	if got := references[s.Name()].validPublicKey(pk); got != valid {
		t.Fatalf("the reference finds the key %v, not %v", got, valid)
	}
	key, err := s.UnmarshalBinaryPublicKey(pk)
	if valid != (err == nil) || !valid && (key != nil || !errors.Is(err, ErrPublicKey) || !errors.Is(err, kem.ErrPubKey)) {
		t.Fatalf("UnmarshalBinaryPublicKey of a key whose validity is %v: error %v", valid, err)
	}
	ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
	err = s.EncapsulateBytes(ct, ss, pk, make([]byte, EncapsulationSeedSize))
	if valid != (err == nil) || !valid && !errors.Is(err, ErrPublicKey) {
		t.Fatalf("EncapsulateBytes to a key whose validity is %v: error %v", valid, err)
	}
	if !valid && (!bytes.Equal(ct, make([]byte, len(ct))) || !bytes.Equal(ss, make([]byte, len(ss)))) {
		t.Fatal("EncapsulateBytes failed and wrote its results")
	}
}

func TestPublicKeyValidation(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		packed, _ := r.newKey(t, s)
		good := bytes.Clone(s.PublicKeyOf(packed))
		checkPublicKey(t, s, good, true)
		for i := range s.n {
			pk := bytes.Clone(good)
			setBits(pk, 13*i, 13, ref.q-1)
			checkPublicKey(t, s, pk, true)
			setBits(pk, 13*i, 13, ref.q)
			checkPublicKey(t, s, pk, false)
		}
		for value := ref.q; value < 1<<13; value++ {
			pk := bytes.Clone(good)
			setBits(pk, 13*r.below(s.n), 13, value)
			if _, err := s.UnmarshalBinaryPublicKey(pk); !errors.Is(err, ErrPublicKey) {
				t.Fatalf("a coefficient of %d: error %v", value, err)
			}
		}
		padding := 0
		for i := 13 * s.n; i < 8*len(good); i++ {
			pk := bytes.Clone(good)
			setBits(pk, i, 1, 1)
			checkPublicKey(t, s, pk, false)
			padding++
		}
		if padding == 0 {
			t.Fatal("no padding")
		}
		checkPublicKey(t, s, make([]byte, len(good)), true) // h = 0 is an element of R_q
	})
}

// checkPrivateKey holds every form that takes a packed private key to valid.
func checkPrivateKey(t *testing.T, s *Scheme, sk []byte, valid bool) {
	t.Helper()
	key, err := s.UnmarshalBinaryPrivateKey(sk)
	if valid != (err == nil) || !valid && (key != nil || !errors.Is(err, ErrPrivateKey) || !errors.Is(err, kem.ErrPrivKey)) {
		t.Fatalf("UnmarshalBinaryPrivateKey of a key whose validity is %v: error %v", valid, err)
	}
	ss := make([]byte, SharedKeySize)
	err = s.DecapsulateBytes(ss, sk, make([]byte, s.CiphertextSize()))
	if valid != (err == nil) || !valid && (!errors.Is(err, ErrPrivateKey) || !bytes.Equal(ss, make([]byte, len(ss)))) {
		t.Fatalf("DecapsulateBytes with a key whose validity is %v: error %v", valid, err)
	}
}

func TestPrivateKeyValidation(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		good, _ := r.newKey(t, s)
		checkPrivateKey(t, s, good, true)
		limit := 4*ref.eta + 1
		for i := range s.n {
			sk := bytes.Clone(good)
			setBits(sk, 4*i, 4, 2*r.below(limit/2+1)) // of one parity,
			checkPrivateKey(t, s, sk, true)
			setBits(sk, 4*i, 4, 2*r.below(limit/2+1)+1) // and of the other
			checkPrivateKey(t, s, sk, true)
			setBits(sk, 4*i, 4, limit)
			checkPrivateKey(t, s, sk, true)
			setBits(sk, 4*i, 4, limit+1+r.below(15-limit))
			checkPrivateKey(t, s, sk, false)
		}
		for value := limit + 1; value < 16; value++ {
			sk := bytes.Clone(good)
			setBits(sk, 4*r.below(s.n), 4, value)
			checkPrivateKey(t, s, sk, false)
		}
		for i := 4 * s.n; i < 8*s.privatePoly; i++ {
			sk := bytes.Clone(good)
			setBits(sk, i, 1, 1)
			checkPrivateKey(t, s, sk, false)
		}
		sk := bytes.Clone(good)
		setBits(s.PublicKeyOf(sk), 13*r.below(s.n), 13, ref.q)
		checkPrivateKey(t, s, sk, false)
		sk = bytes.Clone(good)
		setBits(s.PublicKeyOf(sk), 13*s.n, 1, 1)
		checkPrivateKey(t, s, sk, false)
	})
}

// TestInvalidKeyIsWiped parses private keys whose secret or public part is invalid.
func TestInvalidKeyIsWiped(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		good, _ := r.newKey(t, plain)
		for what, at := range map[string]int{"secret": 0, "public": 8 * s.privatePoly} {
			sk := bytes.Clone(good)
			setBits(sk, at, 13, 1<<13-1)
			if _, err := s.parsePrivateKey(sk); !errors.Is(err, ErrPrivateKey) {
				t.Fatalf("an invalid %s part: error %v", what, err)
			}
			if !allZero(sk) {
				t.Errorf("a key with an invalid %s part is not wiped", what)
			}
			sk = bytes.Clone(good)
			setBits(sk, at, 13, 1<<13-1)
			given := bytes.Clone(sk)
			if _, err := s.UnmarshalBinaryPrivateKey(given); !errors.Is(err, ErrPrivateKey) || !bytes.Equal(given, sk) {
				t.Errorf("an invalid %s part: error %v, or the caller's key has changed", what, err)
			}
		}
	})
}

// TestSizes gives every argument a wrong length.
func TestSizes(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		if s.PublicKeySize() != ref.publicKeySize || s.PrivateKeySize() != ref.privatePoly+ref.publicKeySize+32 ||
			s.CiphertextSize() != (ref.n*ref.d+7)/8 || s.messageSize != ref.messageSize || s.coinSize != ref.coinSize {
			t.Errorf("%+v has other sizes than %+v", s.parameters, ref)
		}
		if s.SeedSize() != 64 || s.EncapsulationSeedSize() != 32 || s.SharedKeySize() != 32 {
			t.Error("wrong seed or key sizes")
		}
		packed, sk := r.newKey(t, s)
		pk := sk.public
		ct, ss, seed := make([]byte, s.CiphertextSize()), make([]byte, 32), make([]byte, 32)
		for _, wrong := range []func([]byte) []byte{
			func([]byte) []byte { return nil },
			func(b []byte) []byte { return b[:len(b)-1] },
			func(b []byte) []byte { return append(bytes.Clone(b), 0) },
		} {
			for what, c := range map[string]struct{ got, want, circl error }{
				"EncapsulateTo ct":      {s.EncapsulateTo(wrong(ct), ss, pk, seed), ErrCiphertextSize, kem.ErrCiphertextSize},
				"EncapsulateTo ss":      {s.EncapsulateTo(ct, wrong(ss), pk, seed), ErrSharedKeySize, nil},
				"EncapsulateTo seed":    {s.EncapsulateTo(ct, ss, pk, wrong(seed)), ErrSeedSize, kem.ErrSeedSize},
				"EncapsulateBytes ct":   {s.EncapsulateBytes(wrong(ct), ss, pk.packed, seed), ErrCiphertextSize, nil},
				"EncapsulateBytes ss":   {s.EncapsulateBytes(ct, wrong(ss), pk.packed, seed), ErrSharedKeySize, nil},
				"EncapsulateBytes pk":   {s.EncapsulateBytes(ct, ss, wrong(pk.packed), seed), ErrPublicKeySize, kem.ErrPubKeySize},
				"EncapsulateBytes seed": {s.EncapsulateBytes(ct, ss, pk.packed, wrong(seed)), ErrSeedSize, nil},
				"DecapsulateTo ss":      {s.DecapsulateTo(wrong(ss), sk, ct), ErrSharedKeySize, nil},
				"DecapsulateTo ct":      {s.DecapsulateTo(ss, sk, wrong(ct)), ErrCiphertextSize, nil},
				"DecapsulateBytes ss":   {s.DecapsulateBytes(wrong(ss), packed, ct), ErrSharedKeySize, nil},
				"DecapsulateBytes sk":   {s.DecapsulateBytes(ss, wrong(packed), ct), ErrPrivateKeySize, kem.ErrPrivKeySize},
				"DecapsulateBytes ct":   {s.DecapsulateBytes(ss, packed, wrong(ct)), ErrCiphertextSize, nil},
				"GenerateKeyBytes sk":   {s.GenerateKeyBytes(wrong(packed), make([]byte, 64)), ErrPrivateKeySize, nil},
				"GenerateKeyBytes seed": {s.GenerateKeyBytes(packed, wrong(make([]byte, 64))), ErrSeedSize, nil},
			} {
				if !errors.Is(c.got, c.want) || c.circl != nil && !errors.Is(c.got, c.circl) {
					t.Errorf("%s: error %v, want %v", what, c.got, c.want)
				}
				if c.got != nil && !strings.HasPrefix(c.got.Error(), "ctruprime: ") {
					t.Errorf("%s: error %q does not name the package", what, c.got)
				}
			}
			if _, _, err := s.EncapsulateDeterministically(pk, wrong(seed)); !errors.Is(err, kem.ErrSeedSize) {
				t.Errorf("EncapsulateDeterministically: error %v", err)
			}
			if _, err := s.Decapsulate(sk, wrong(ct)); !errors.Is(err, kem.ErrCiphertextSize) {
				t.Errorf("Decapsulate: error %v", err)
			}
			if _, err := s.UnmarshalBinaryPublicKey(wrong(pk.packed)); !errors.Is(err, kem.ErrPubKeySize) {
				t.Errorf("UnmarshalBinaryPublicKey: error %v", err)
			}
			if _, err := s.UnmarshalBinaryPrivateKey(wrong(packed)); !errors.Is(err, kem.ErrPrivKeySize) {
				t.Errorf("UnmarshalBinaryPrivateKey: error %v", err)
			}
			func() {
				defer func() {
					if r := recover(); r != kem.ErrSeedSize {
						t.Errorf("DeriveKeyPair: panic %v, want %v", r, kem.ErrSeedSize)
					}
				}()
				s.DeriveKeyPair(wrong(make([]byte, 64)))
			}()
		}
	})
}

// TestTypeMismatch hands keys to schemes that they do not belong to.
func TestTypeMismatch(t *testing.T) {
	r := newRandom(t)
	var foreignPK kem.PublicKey
	var foreignSK kem.PrivateKey
	_, own := r.newKey(t, scheme761)
	for _, s := range []*Scheme{scheme653, scheme1277} {
		_, sk := r.newKey(t, s)
		if own.Equal(sk) || own.Public().Equal(sk.Public()) || own.Equal(foreignSK) || own.Public().Equal(foreignPK) {
			t.Error("keys of two sets are equal")
		}
		for _, pk := range []kem.PublicKey{sk.Public(), foreignPK, (*PublicKey)(nil)} {
			if _, _, err := scheme761.Encapsulate(pk); !errors.Is(err, kem.ErrTypeMismatch) || !errors.Is(err, ErrTypeMismatch) {
				t.Errorf("Encapsulate: error %v", err)
			}
			if _, _, err := scheme761.EncapsulateDeterministically(pk, make([]byte, 32)); !errors.Is(err, ErrTypeMismatch) {
				t.Errorf("EncapsulateDeterministically: error %v", err)
			}
		}
		for _, key := range []kem.PrivateKey{sk, foreignSK, (*PrivateKey)(nil)} {
			if _, err := scheme761.Decapsulate(key, make([]byte, scheme761.CiphertextSize())); !errors.Is(err, ErrTypeMismatch) {
				t.Errorf("Decapsulate: error %v", err)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		packed, sk := r.newKey(t, s)
		_, other := r.newKey(t, s)
		again, err := s.UnmarshalBinaryPrivateKey(packed)
		if err != nil {
			t.Fatal(err)
		}
		if !sk.Equal(again) || sk.Equal(other) || !sk.Public().Equal(again.Public()) || sk.Public().Equal(other.Public()) {
			t.Error("Equal is wrong")
		}
		if sk.Scheme() != kem.Scheme(s) || sk.Public().Scheme() != kem.Scheme(s) {
			t.Error("a key names another scheme")
		}
		if got := marshal(t, sk); !bytes.Equal(got, packed) {
			t.Error("a private key does not marshal to what it was parsed from")
		}
		pk, err := s.UnmarshalBinaryPublicKey(marshal(t, sk.Public()))
		if err != nil || !pk.Equal(sk.Public()) {
			t.Errorf("a public key does not survive marshalling, error %v", err)
		}

		// Keys keep no reference to the buffers that they come from and go to.
		clear(packed)
		clear(marshal(t, sk))
		clear(marshal(t, sk.Public()))
		if !sk.Equal(again) || !pk.Equal(sk.Public()) {
			t.Error("a key changed with a buffer")
		}
	})
}

func TestWipe(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		_, sk := r.newKey(t, s)
		_, same := r.newKey(t, s)
		ct, _, err := s.Encapsulate(sk.Public())
		if err != nil {
			t.Fatal(err)
		}
		packed, f := sk.packed, sk.f
		sk.Wipe()
		for _, b := range packed {
			if b != 0 {
				t.Fatal("the packed key survives")
			}
		}
		for _, x := range f {
			if x != 0 {
				t.Fatal("the secret polynomial survives")
			}
		}
		if _, err := s.Decapsulate(sk, ct); !errors.Is(err, ErrWiped) {
			t.Errorf("Decapsulate with a wiped key: error %v", err)
		}
		if _, err := sk.MarshalBinary(); !errors.Is(err, ErrWiped) {
			t.Errorf("MarshalBinary of a wiped key: error %v", err)
		}
		if sk.Equal(sk) || sk.Equal(same) || same.Equal(sk) {
			t.Error("a wiped key equals something")
		}
		if _, _, err := s.Encapsulate(sk.Public()); err != nil {
			t.Errorf("the public key does not outlive the private one: %v", err)
		}
		sk.Wipe() // once more does no harm
	})
}

// TestScratchIsWiped fills scratch memory and gives it back.
func TestScratchIsWiped(t *testing.T) {
	zero := func(t *testing.T, what string, isZero bool) {
		t.Helper()
		if !isZero {
			t.Errorf("%s is not wiped", what)
		}
	}
	for _, s := range allSchemes {
		packed, sk := newRandom(t).newKey(t, s)
		w, d, k := newWorkspace(&s.parameters), newDivision(&s.parameters), newKeyGroup(&s.parameters)
		s.generate(packed, packed[:SeedSize], w, d)
		s.encapsulate(w.again, make([]byte, SharedKeySize), sk.public.packed, sk.public.h, packed[:32], w)
		s.decapsulate(make([]byte, SharedKeySize), sk.public.packed, packed[:32], sk.f, sk.public.h, bytes.Clone(w.again), w)
		sks, seeds := [][]byte{packed, bytes.Clone(packed)}, [][]byte{make([]byte, 64), make([]byte, 64)}
		s.generateGroup(sks, seeds, w, d, k)
		for _, x := range []interface{ wipe() }{w, d, k} {
			x.wipe()
		}
		{
			v := w
			zero(t, "small", allZero(v.small))
			zero(t, "large", allZero(v.large))
			zero(t, "secret", allZero(v.secret))
			zero(t, "product", allZero(v.product))
			zero(t, "message", allZero(v.message))
			zero(t, "coins", allZero(v.coins))
			zero(t, "hashed", allZero(v.hashed))
			zero(t, "again", allZero(v.again))
			zero(t, "seed", allZero(v.seed[:]))
			zero(t, "rejection", allZero(v.rejection[:]))
			zero(t, "digest", allZero(v.digest[:]))
			zero(t, "reject", allZero(v.reject[:]))
		}
		for i := range 2 {
			zero(t, "division", allZero(d.fg.now[i]) && allZero(d.fg.next[i]) && allZero(d.vr.now[i]) && allZero(d.vr.next[i]))
		}
		zero(t, "jump", d.t == transition{} && allZero(d.lowF[:]) && allZero(d.lowG[:]) && d.columns == [2][2][jumpWords]uint64{})
		for i := range k.f {
			zero(t, "group key", allZero(k.f[i]) && allZero(k.dividend[i]))
		}
		zero(t, "group", allZero(k.prefix) && allZero(k.inverse) && allZero(k.a.low) && allZero(k.a.high) &&
			allZero(k.b.low) && allZero(k.b.high) && allZero(k.c[0]) && allZero(k.c[1]) && allZero(k.c[2]))
	}
}

func allZero[S ~[]T, T byte | int16 | int32 | uint64](a S) bool {
	for _, x := range a {
		if x != 0 {
			return false
		}
	}
	return true
}

func TestByName(t *testing.T) {
	for _, s := range All() {
		for _, name := range []string{s.Name(), strings.ToLower(s.Name()), strings.ToUpper(s.Name())} {
			if ByName(name) != s {
				t.Errorf("ByName(%q) is not %s", name, s.Name())
			}
		}
	}
	for _, name := range []string{"", "CTRU-Prime", "CTRU-Prime-7610", "ML-KEM-768"} {
		if s := ByName(name); s != nil {
			t.Errorf("ByName(%q) is %s", name, s.Name())
		}
	}
	names := ""
	for _, s := range All() {
		names += s.Name() + " "
	}
	if names != "CTRU-Prime-653 CTRU-Prime-761 CTRU-Prime-1277 " {
		t.Errorf("All: %s", names)
	}
	if Scheme653() != All()[0] || Scheme761() != All()[1] || Scheme1277() != All()[2] {
		t.Error("All does not hold the schemes")
	}
}

// TestConcurrency shares schemes and keys between goroutines. It is worth most
// under the race detector.
func TestConcurrency(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		packed, sk := r.newKey(t, s)
		var wg sync.WaitGroup
		for i := range 8 {
			seed := r.bytes(EncapsulationSeedSize)
			keySeed := r.bytes(KeySeedSize)
			wg.Go(func() {
				ct, ss, err := s.EncapsulateDeterministically(sk.Public(), seed)
				if err != nil {
					t.Error(err)
					return
				}
				ct2, got := make([]byte, len(ct)), make([]byte, len(ss))
				for range 4 {
					if err := s.EncapsulateBytes(ct2, got, s.PublicKeyOf(packed), seed); err != nil || !bytes.Equal(ct, ct2) || !bytes.Equal(ss, got) {
						t.Errorf("another ciphertext or key, error %v", err)
					}
					if err := s.DecapsulateTo(got, sk, ct); err != nil || !bytes.Equal(ss, got) {
						t.Errorf("another key, error %v", err)
					}
					if err := s.DecapsulateBytes(got, packed, ct); err != nil || !bytes.Equal(ss, got) {
						t.Errorf("another key, error %v", err)
					}
				}
				if i%2 == 0 {
					s.DeriveKeyPair(keySeed)
					return
				}
				sks := [][]byte{make([]byte, len(packed)), make([]byte, len(packed))}
				if err := s.GenerateKeysBytes(sks, [][]byte{keySeed, keySeed}); err != nil || !bytes.Equal(sks[0], sks[1]) {
					t.Errorf("one seed makes two keys, error %v", err)
				}
			})
		}
		wg.Wait()
	})
}

// TestEqual changes each byte of a ciphertext.
func TestEqual(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, _ *Scheme) {
		for _, length := range []int{32, 33, 63, 64, 65, 898, 952, 1597} {
			a := r.bytes(length)
			if s.equal(a, bytes.Clone(a)) != 1 {
				t.Errorf("%d bytes are not equal to themselves", length)
			}
			for i := range a {
				b := bytes.Clone(a)
				b[i] ^= 1 << r.below(8)
				if s.equal(a, b) != 0 {
					t.Errorf("byte %d of %d makes no difference", i, length)
				}
			}
		}
	})
}
