package combtable

import (
	"crypto/ecdh"
	"math/big"
	"testing"
)

// entry returns the words of entry j of window w of a table.
func entry(t Words, entryWords, w, j int) Words {
	e := make(Words, entryWords)
	for i := range e {
		e[i] = t[position(entryWords, w, j, i)]
	}
	return e
}

func fromWords(w Words) *big.Int {
	x := new(big.Int)
	for i, word := range w {
		x.Or(x, new(big.Int).Lsh(big.NewInt(int64(word)), uint(32*i)))
	}
	return x
}

// multiple returns (2j + 1) 128^w.
func multiple(w, j int) *big.Int {
	return new(big.Int).Lsh(big.NewInt(int64(2*j+1)), uint(windowBits*w))
}

// sample is some of the windows and entries, the first and last among them.
func sample(f func(w, j int)) {
	for _, w := range []int{0, 1, 19, 36, 37} {
		for _, j := range []int{0, 1, 31, 32, 63} {
			f(w, j)
		}
	}
}

// Every entry of P-256's table is the multiple of the base point that crypto/ecdh computes.
func TestP256Base(t *testing.T) {
	table := P256Base()
	inverse := new(big.Int).ModInverse(montgomery, p256.P)
	sample(func(w, j int) {
		k := new(big.Int).Mod(multiple(w, j), p256.N)
		private, err := ecdh.P256().NewPrivateKey(k.FillBytes(make([]byte, 32)))
		if err != nil {
			t.Fatal(err)
		}
		public := private.PublicKey().Bytes()
		e := entry(table, 16, w, j)
		x, y := p256Field.mul(fromWords(e[:8]), inverse), p256Field.mul(fromWords(e[8:]), inverse)
		if x.Cmp(new(big.Int).SetBytes(public[1:33])) != 0 || y.Cmp(new(big.Int).SetBytes(public[33:])) != 0 {
			t.Errorf("window %d, entry %d: (%x, %x), want %x", w, j, x, y, public[1:])
		}
	})
}

func TestP256RefusesOtherPoints(t *testing.T) {
	one := big.NewInt(1)
	for _, p := range []point{
		{p256.Gx, new(big.Int).Add(p256.Gy, one)},
		{new(big.Int), new(big.Int)},
		{new(big.Int).Add(p256.Gx, p256.P), p256.Gy},
		{p256.Gx, new(big.Int).Sub(p256.Gy, p256.P)},
	} {
		if _, err := P256(p.x, p.y); err == nil {
			t.Errorf("(%x, %x) is taken for a point", p.x, p.y)
		}
	}
}

// ladder returns the u-coordinate of k times the point with u = 9, by RFC 7748's formulas, in which no Edwards curve occurs.
func ladder(k *big.Int) *big.Int {
	f, nine := edwards, big.NewInt(9)
	x2, z2, x3, z3 := big.NewInt(1), big.NewInt(0), nine, big.NewInt(1)
	for i := k.BitLen() - 1; i >= 0; i-- {
		if k.Bit(i) == 1 {
			x2, z2, x3, z3 = x3, z3, x2, z2
		}
		a, b, c, d := f.add(x2, z2), f.sub(x2, z2), f.add(x3, z3), f.sub(x3, z3)
		da, cb, aa, bb := f.mul(d, a), f.mul(c, b), f.mul(a, a), f.mul(b, b)
		sum, difference, e := f.add(da, cb), f.sub(da, cb), f.sub(aa, bb)
		x3, z3 = f.mul(sum, sum), f.mul(nine, f.mul(difference, difference))
		x2, z2 = f.mul(aa, bb), f.mul(e, f.add(aa, f.mul(big.NewInt(121665), e)))
		if k.Bit(i) == 1 {
			x2, z2, x3, z3 = x3, z3, x2, z2
		}
	}
	return f.div(x2, z2)
}

// Every entry of edwards25519's table is the multiple of the base point that the ladder computes on the Montgomery curve.
func TestEdwards25519(t *testing.T) {
	table := Edwards25519()
	f, one := edwards, big.NewInt(1)
	sample(func(w, j int) {
		e := entry(table, 24, w, j)
		plus, minus, product := fromWords(e[:8]), fromWords(e[8:16]), fromWords(e[16:])
		x, y := f.sub(plus, minus), f.add(plus, minus)
		if f.mul(edwardsD, f.mul(x, y)).Cmp(product) != 0 {
			t.Errorf("window %d, entry %d: the product is not d x y", w, j)
		}
		if u, want := f.div(f.add(one, y), f.sub(one, y)), ladder(multiple(w, j)); u.Cmp(want) != 0 {
			t.Errorf("window %d, entry %d: u = %x, want %x", w, j, u, want)
		}
	})
	// u does not show the sign of x, which all entries have from the first.
	if x := f.sub(fromWords(entry(table, 24, 0, 0)[:8]), fromWords(entry(table, 24, 0, 0)[8:16])); x.Cmp(edwardsBase.x) != 0 {
		t.Errorf("the first entry has x = %x, want %x", x, edwardsBase.x)
	}
}
