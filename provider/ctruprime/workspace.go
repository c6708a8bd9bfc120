package ctruprime

import (
	"crypto/sha3"
	"sync"
)

// workspace is the scratch memory of one operation, in one piece for each
// parameter set. It holds secrets while in use and only zeros in a pool.
type workspace struct {
	small   poly     // short coefficients: noise, secrets
	large   poly     // centred residues modulo q or 2^d
	key     spectrum // the transform of a key that came packed
	product spectrum
	message []byte
	coins   []byte // parameters.sampleSize
	hashed  []byte // keyIDSize, then a message or z and a ciphertext
	again   []byte // the re-encrypted ciphertext
	seed    [EncapsulationSeedSize]byte
	digest  [64]byte   // a shared key, then the seed of coins
	reject  [64]byte   // the shared key of a rejected ciphertext, and a rest
	shake   sha3.SHAKE // the zero value is SHAKE256
}

func newWorkspace(p *parameters) *workspace {
	return &workspace{
		small:   make(poly, p.half),
		large:   make(poly, p.half),
		key:     make(spectrum, p.size),
		product: make(spectrum, p.size),
		message: make([]byte, p.messageSize),
		coins:   make([]byte, p.sampleSize()),
		hashed:  make([]byte, keyIDSize+RejectionSize+p.ciphertextSize),
		again:   make([]byte, p.ciphertextSize),
	}
}

// wipe zeroes everything.
func (w *workspace) wipe() {
	clear(w.small)
	clear(w.large)
	clear(w.key)
	clear(w.product)
	clear(w.message)
	clear(w.coins)
	clear(w.hashed)
	clear(w.again)
	clear(w.seed[:])
	clear(w.digest[:])
	clear(w.reject[:])
	w.shake.Reset()
}

// expand fills out with SHAKE256 of seed.
func (w *workspace) expand(out, seed []byte) {
	w.shake.Reset()
	w.shake.Write(seed)
	w.shake.Read(out)
}

// pools keeps what operations of one set use and have wiped.
type pools struct {
	workspaces sync.Pool
	divisions  sync.Pool
	keyGroups  sync.Pool
}

func (s *Scheme) borrow() *workspace {
	if w, ok := s.pools.workspaces.Get().(*workspace); ok {
		return w
	}
	return newWorkspace(&s.parameters)
}

func (s *Scheme) giveBack(w *workspace) {
	w.wipe()
	s.pools.workspaces.Put(w)
}

func (s *Scheme) borrowDivision() *division {
	if d, ok := s.pools.divisions.Get().(*division); ok {
		return d
	}
	return newDivision(&s.parameters)
}

func (s *Scheme) giveBackDivision(d *division) {
	d.wipe()
	s.pools.divisions.Put(d)
}

func (s *Scheme) borrowGroup() *keyGroup {
	if k, ok := s.pools.keyGroups.Get().(*keyGroup); ok {
		return k
	}
	return newKeyGroup(&s.parameters)
}

func (s *Scheme) giveBackGroup(k *keyGroup) {
	k.wipe()
	s.pools.keyGroups.Put(k)
}
