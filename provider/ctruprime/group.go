package ctruprime

// Many operations at once: their hashes run in the lanes of vector code, where
// the processor has it, so that each costs less than alone.

// maxLanes is how many hashes run at once.
const maxLanes = 4

// An Encapsulation is one of a batch: the arguments of EncapsulateBytes and its
// result.
type Encapsulation struct {
	Ciphertext []byte // CiphertextSize bytes, written
	SharedKey  []byte // SharedKeySize bytes, written
	PublicKey  []byte // packed, PublicKeySize bytes
	Seed       []byte // EncapsulationSeedSize bytes: uniform, secret, used once
	Err        error  // set: nil, or why nothing was written
}

// A Decapsulation is one of a batch: the arguments of DecapsulateBytes and its
// result.
type Decapsulation struct {
	SharedKey  []byte // SharedKeySize bytes, written
	PrivateKey []byte // packed, PrivateKeySize bytes
	Ciphertext []byte // CiphertextSize bytes
	Err        error  // set: nil, or why nothing was written
}

// EncapsulateBatch is EncapsulateBytes for each element, which gets the error
// that EncapsulateBytes would return. Multiples of four cost least. The buffers
// of different elements must not overlap. It does not allocate.
func (s *Scheme) EncapsulateBatch(batch []Encapsulation) {
	if s.vector == nil {
		for i := range batch {
			e := &batch[i]
			e.Err = s.EncapsulateBytes(e.Ciphertext, e.SharedKey, e.PublicKey, e.Seed)
		}
		return
	}
	var w [maxLanes]*workspace
	s.borrowAll(w[:min(maxLanes, len(batch))])
	defer s.giveBackAll(w[:min(maxLanes, len(batch))])
	var ops [maxLanes]encapsulation
	n := 0
	for i := range batch {
		e := &batch[i]
		if e.Err = s.prepareEncapsulation(e, &ops[n], w[n]); e.Err == nil {
			n++
		}
		if n == maxLanes || n > 0 && i == len(batch)-1 {
			s.encapsulateLanes(ops[:n])
			n = 0
		}
	}
}

// prepareEncapsulation checks the arguments and readies the operation.
func (s *Scheme) prepareEncapsulation(e *Encapsulation, op *encapsulation, w *workspace) error {
	if err := s.checkSize(ErrPublicKeySize, len(e.PublicKey), s.publicKeySize); err != nil {
		return err
	}
	if err := s.checkEncapsulation(e.Ciphertext, e.SharedKey, e.Seed); err != nil {
		return err
	}
	if !s.unpackPublicKey(w.public, e.PublicKey) {
		return ErrPublicKey
	}
	*op = encapsulation{e.Ciphertext, e.SharedKey, e.PublicKey, e.Seed, s.transformOnce(w.room, w.public), w}
	return nil
}

// DecapsulateBatch is DecapsulateBytes for each element, which gets the error that
// DecapsulateBytes would return. Multiples of four cost least. The buffers of
// different elements must not overlap. It does not allocate.
func (s *Scheme) DecapsulateBatch(batch []Decapsulation) {
	if s.vector == nil {
		for i := range batch {
			d := &batch[i]
			d.Err = s.DecapsulateBytes(d.SharedKey, d.PrivateKey, d.Ciphertext)
		}
		return
	}
	var w [maxLanes]*workspace
	s.borrowAll(w[:min(maxLanes, len(batch))])
	defer s.giveBackAll(w[:min(maxLanes, len(batch))])
	var ops [maxLanes]decapsulation
	n := 0
	for i := range batch {
		d := &batch[i]
		if d.Err = s.prepareDecapsulation(d, &ops[n], w[n]); d.Err == nil {
			n++
		}
		if n == maxLanes || n > 0 && i == len(batch)-1 {
			s.decapsulateLanes(ops[:n])
			n = 0
		}
	}
}

// prepareDecapsulation checks the arguments and readies the operation.
func (s *Scheme) prepareDecapsulation(d *Decapsulation, op *decapsulation, w *workspace) error {
	if err := s.checkSize(ErrPrivateKeySize, len(d.PrivateKey), s.privateKeySize); err != nil {
		return err
	}
	if err := s.checkDecapsulation(d.SharedKey, d.Ciphertext); err != nil {
		return err
	}
	pk := s.PublicKeyOf(d.PrivateKey)
	if !s.unpackPrivatePoly(w.small, d.PrivateKey[:s.privatePoly]) || !s.unpackPublicKey(w.public, pk) {
		return ErrPrivateKey
	}
	f, h := s.transformBoth(w)
	*op = decapsulation{d.SharedKey, pk, s.rejectionOf(d.PrivateKey), d.Ciphertext, f, h, w}
	return nil
}

func (s *Scheme) borrowAll(all []*workspace) {
	for i := range all {
		all[i] = s.borrow()
	}
}

func (s *Scheme) giveBackAll(all []*workspace) {
	for _, w := range all {
		s.giveBack(w)
	}
}
