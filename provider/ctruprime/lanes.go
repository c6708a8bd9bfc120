//go:build amd64 && !noasm

package ctruprime

import (
	"crypto/subtle"

	"github.com/ctrutls/ctrutls/provider/ctruprime/internal/vec"
)

// The KEM with hashing in lanes: up to four Keccak states at once, of several
// operations or, in decapsulation, of the two hashes of one. It computes what
// kem.go computes.

const (
	shakeRate, shakeDomain = 136, 0x1f // SHAKE256
	sha3Rate, sha3Domain   = 72, 0x06  // SHA3-512
)

// laneHash is the part of a workspace that such hashing takes.
type laneHash = vec.Keccak4

// encapsulateLanes does up to maxLanes operations.
func (p *parameters) encapsulateLanes(ops []encapsulation) {
	k := &ops[0].w.lanes
	k.Reset()
	for lane := range ops {
		k.AbsorbLast(lane, shakeRate, shakeDomain, ops[lane].seed)
	}
	k.Permute()
	group := laneGroup{k: k}
	for lane := range ops {
		k.Squeeze(lane, ops[lane].w.message)
		group.add(ops[lane].w, ops[lane].id, lane)
	}
	group.deriveKeys(p, nil)
	for i := range ops {
		p.encrypt(ops[i].ct, ops[i].h, ops[i].w)
		copy(ops[i].ss, ops[i].w.digest[:SharedKeySize])
	}
}

// decapsulateLanes does up to maxLanes operations. On a processor whose
// permutation takes as long for four states as for one, and if two lanes an
// operation are there, the hash for rejection runs beside the others;
// otherwise it follows them.
func (p *parameters) decapsulateLanes(ops []decapsulation) {
	k := &ops[0].w.lanes
	beside := p.vector.avx512 && 2*len(ops) <= maxLanes
	group := laneGroup{k: k}
	var inputs [maxLanes]hashing
	var rejections [maxLanes]*hashing
	for i := range ops {
		o := &ops[i]
		p.decrypt(o.ct, o.f, o.w)
		n := copy(o.w.hashed, o.id[:keyIDSize])
		n += copy(o.w.hashed[n:], o.z)
		n += copy(o.w.hashed[n:], o.ct)
		inputs[i] = hashing{lane: i, rest: o.w.hashed[:n]}
		if beside {
			inputs[i].lane = len(ops) + i
		}
		rejections[i] = &inputs[i]
		group.add(o.w, o.id, i)
	}
	running := rejections[:len(ops)]
	if beside {
		group.deriveKeys(p, running)
	} else {
		group.deriveKeys(p, nil)
		k.Reset()
	}
	for absorbAll(k, running) {
		k.Permute()
	}
	for i := range ops {
		o := &ops[i]
		k.Squeeze(inputs[i].lane, o.w.reject[:])
		p.encrypt(o.w.again, o.h, o.w)
		same := equal(o.ct, o.w.again)
		copy(o.ss, o.w.reject[:SharedKeySize])
		subtle.ConstantTimeCopy(same, o.ss, o.w.digest[:SharedKeySize])
	}
}

// hashing is a SHA3-512 in one lane, a block at a time.
type hashing struct {
	lane int
	rest []byte
	done bool // the last block is absorbed
}

// absorbAll absorbs the next block of each input and reports whether any had one
// left. The inputs have the same length.
func absorbAll(k *laneHash, inputs []*hashing) bool {
	any := false
	for _, h := range inputs {
		if h.done {
			continue
		}
		any = true
		if len(h.rest) >= sha3Rate {
			k.Absorb(h.lane, h.rest[:sha3Rate])
			h.rest = h.rest[sha3Rate:]
			continue
		}
		k.AbsorbLast(h.lane, sha3Rate, sha3Domain, h.rest)
		h.done = true
	}
	return any
}

// laneGroup is a group of operations in the lanes from 0 on.
type laneGroup struct {
	k    *laneHash
	w    [maxLanes]*workspace
	ids  [maxLanes][]byte
	size int
}

func (g *laneGroup) add(w *workspace, id []byte, lane int) {
	g.w[lane], g.ids[lane] = w, id
	g.size = lane + 1
}

// deriveKeys sets digest, the shared key and the seed of the coins, and coins of
// each workspace, for its message. Other hashes go on in lanes beyond.
func (g *laneGroup) deriveKeys(p *parameters, beside []*hashing) {
	var inputs [maxLanes]hashing
	var mine [maxLanes]*hashing
	g.k.Reset()
	for lane := range g.size {
		w := g.w[lane]
		n := copy(w.coins, g.ids[lane][:keyIDSize]) // the coins come later
		n += copy(w.coins[n:], w.message)
		inputs[lane] = hashing{lane: lane, rest: w.coins[:n]}
		mine[lane] = &inputs[lane]
	}
	for absorbAll(g.k, mine[:g.size]) {
		absorbAll(g.k, beside)
		g.k.Permute()
	}
	for lane := range g.size {
		g.k.Squeeze(lane, g.w[lane].digest[:])
	}
	if len(beside) == 0 {
		g.k.Reset() // faster than lane by lane
	}
	for lane := range g.size {
		if len(beside) > 0 {
			g.k.Clear(lane)
		}
		g.k.AbsorbLast(lane, shakeRate, shakeDomain, g.w[lane].digest[SharedKeySize:])
	}
	for at := 0; at < p.coinSize; at += shakeRate {
		absorbAll(g.k, beside)
		g.k.Permute()
		for lane := range g.size {
			g.k.Squeeze(lane, g.w[lane].coins[at:min(at+shakeRate, p.coinSize)])
		}
	}
}

// expand sets coins to SHAKE256 of up to maxLanes seeds, of which it takes the
// first half.
func (k *keyGroup) expand(p *parameters, seeds [][]byte) {
	k.lanes.Reset()
	for lane, seed := range seeds {
		k.lanes.AbsorbLast(lane, shakeRate, shakeDomain, seed[:SeedSize])
	}
	size := 2 * p.coinSize
	for at := 0; at < size; at += shakeRate {
		k.lanes.Permute()
		for lane := range seeds {
			k.lanes.Squeeze(lane, k.coins[lane][at:min(at+shakeRate, size)])
		}
	}
}
