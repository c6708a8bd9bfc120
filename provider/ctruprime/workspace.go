package ctruprime

import (
	"crypto/sha3"
	"sync"
)

// workspace is the scratch memory of one operation, in one piece for each
// parameter set. It holds secrets while in use and none in a pool.
type workspace struct {
	small     poly     // short coefficients: noise, secrets
	large     poly     // centred residues modulo q or 2^d
	public    poly     // a public key that came packed
	room      spectrum // its transform
	secret    spectrum // that of a private key, or of another secret
	product   spectrum
	message   []byte // followed by zeros up to its capacity, a multiple of 16
	words     []byte // the codewords of all that
	coins     []byte // parameters.sampleSize
	hashed    []byte // keyIDSize, then a message or z and a ciphertext
	again     []byte // the re-encrypted ciphertext
	seed      [EncapsulationSeedSize]byte
	rejection [RejectionSize]byte // the z of a key in the making
	digest    [64]byte            // a shared key, then the seed of coins
	reject    [64]byte            // the shared key of a rejected ciphertext, and a rest
	shake     sha3.SHAKE          // the zero value is SHAKE256
	lanes     laneHash
	keyed     int      // how much of secret is in use
	tail      [64]byte // the end of a packed polynomial
}

func newWorkspace(p *parameters) *workspace {
	w := &workspace{
		small:   make(poly, p.half),
		large:   make(poly, p.half),
		public:  make(poly, p.half),
		room:    p.newKey(),
		secret:  p.newKey(),
		product: make(spectrum, p.size),
		message: make([]byte, p.messageSize, (p.messageSize+15)/16*16),
		words:   make([]byte, (p.messageSize+15)/16*32),
		coins:   make([]byte, p.sampleSize()),
		hashed:  make([]byte, keyIDSize+RejectionSize+p.ciphertextSize),
		again:   make([]byte, p.ciphertextSize),
	}
	w.lanes.Init(p.vector != nil && p.vector.avx512)
	return w
}

// secretKey returns the secret spectrum, which wipe then zeroes.
func (w *workspace) secretKey() spectrum {
	w.keyed = len(w.secret)
	return w.secret
}

// wipe zeroes everything that is secret.
func (w *workspace) wipe() {
	clear(w.small)
	clear(w.large)
	clear(w.secret[:w.keyed])
	w.keyed = 0
	clear(w.product)
	clear(w.message)
	clear(w.words)
	clear(w.tail[:])
	clear(w.coins)
	clear(w.hashed)
	clear(w.again)
	clear(w.seed[:])
	clear(w.rejection[:])
	clear(w.digest[:])
	clear(w.reject[:])
	w.shake.Reset()
	w.lanes.Reset()
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
