//go:build amd64 && !noasm

package ctruprime

import "github.com/ctrutls/ctrutls/provider/ctruprime/internal/vec"

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
	group := laneGroup{k: &ops[0].w.lanes}
	group.k.Reset()
	for lane := range ops {
		group.k.AbsorbLast(lane, shakeRate, shakeDomain, ops[lane].seed)
		group.add(ops[lane].w, ops[lane].id, lane)
	}
	group.permute()
	for lane := range ops {
		group.k.Squeeze(lane, ops[lane].w.message)
	}
	group.k.Reset()
	group.deriveKeys(p, nil)
	for i := range ops {
		p.encrypt(ops[i].ct, ops[i].h, ops[i].w)
		copy(ops[i].ss, ops[i].w.digest[:SharedKeySize])
	}
}

// decapsulateLanes does up to maxLanes operations. If there are two lanes for
// each, the hashes for rejection, which take longer than the others and depend
// on no message, end beside them; otherwise they follow in the same lanes.
func (p *parameters) decapsulateLanes(ops []decapsulation) {
	k := &ops[0].w.lanes
	group := laneGroup{k: k}
	var rejections hashings
	beside := 2*len(ops) <= maxLanes
	for i := range ops {
		o := &ops[i]
		n := copy(o.w.hashed, o.id[:keyIDSize])
		n += copy(o.w.hashed[n:], o.z)
		n += copy(o.w.hashed[n:], o.ct)
		lane := i
		if beside {
			lane += len(ops)
		}
		rejections.add(lane, o.w.hashed[:n])
		group.add(o.w, o.id, i)
	}
	for i := range ops {
		p.decrypt(ops[i].ct, ops[i].f, ops[i].w)
	}
	k.Reset()
	if beside {
		rejections.run(k, rejections.blocks()-p.keyBlocks())
		group.clear()
		group.deriveKeys(p, &rejections)
	} else {
		group.deriveKeys(p, nil)
		k.Reset()
		rejections.run(k, rejections.blocks())
	}
	for i := range ops {
		o := &ops[i]
		k.Squeeze(rejections.all[i].lane, o.w.reject[:])
		p.choose(o.ss, o.ct, o.h, o.w)
	}
}

// hashings are SHA3-512 of inputs of one length, each in a lane, a block at a
// time.
type hashings struct {
	all  [maxLanes]hashing
	size int
	done bool // the last blocks are absorbed
}

type hashing struct {
	lane int
	rest []byte
}

func (h *hashings) add(lane int, input []byte) {
	h.all[h.size] = hashing{lane, input}
	h.size++
}

// blocks is how many of each input are left.
func (h *hashings) blocks() int { return len(h.all[0].rest)/sha3Rate + 1 }

// absorb absorbs the next block of each input, if there is one left.
func (h *hashings) absorb(k *laneHash) {
	if h.done {
		return
	}
	h.done = h.blocks() == 1
	for i := range h.all[:h.size] {
		x := &h.all[i]
		if h.done {
			k.AbsorbLast(x.lane, sha3Rate, sha3Domain, x.rest)
			continue
		}
		k.Absorb(x.lane, x.rest[:sha3Rate])
		x.rest = x.rest[sha3Rate:]
	}
}

// run hashes so many blocks.
func (h *hashings) run(k *laneHash, blocks int) {
	for range blocks {
		h.absorb(k)
		if h.size == 1 {
			k.PermuteOne(h.all[0].lane)
		} else {
			k.Permute()
		}
	}
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

// clear zeroes the group's lanes.
func (g *laneGroup) clear() {
	for lane := range g.size {
		g.k.Clear(lane)
	}
}

// permute permutes the group's lanes; what is in others is of no use afterwards.
func (g *laneGroup) permute() {
	if g.size == 1 {
		g.k.PermuteOne(0)
		return
	}
	g.k.Permute()
}

// keyBlocks is how often deriveKeys permutes.
func (p *parameters) keyBlocks() int {
	return (keyIDSize+p.messageSize)/sha3Rate + 1 + (p.coinSize+shakeRate-1)/shakeRate
}

// deriveKeys sets digest, the shared key and the seed of the coins, and coins of
// each workspace, for its message, in lanes that are zero. Other hashes, or nil,
// go on in lanes beyond.
func (g *laneGroup) deriveKeys(p *parameters, beside *hashings) {
	var inputs hashings
	for lane := range g.size {
		w := g.w[lane]
		n := copy(w.coins, g.ids[lane][:keyIDSize]) // the coins come later
		n += copy(w.coins[n:], w.message)
		inputs.add(lane, w.coins[:n])
	}
	for range inputs.blocks() {
		inputs.absorb(g.k)
		g.permuteBeside(beside)
	}
	for lane := range g.size {
		g.k.Squeeze(lane, g.w[lane].digest[:])
	}
	g.clear()
	for lane := range g.size {
		g.k.AbsorbLast(lane, shakeRate, shakeDomain, g.w[lane].digest[SharedKeySize:])
	}
	for at := 0; at < p.coinSize; at += shakeRate {
		g.permuteBeside(beside)
		for lane := range g.size {
			g.k.Squeeze(lane, g.w[lane].coins[at:min(at+shakeRate, p.coinSize)])
		}
	}
}

// permuteBeside permutes the group's lanes and does a block of other hashes.
func (g *laneGroup) permuteBeside(other *hashings) {
	if other == nil {
		g.permute()
		return
	}
	other.absorb(g.k)
	g.k.Permute()
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
