package ctruprime

// The public-key encryption scheme beneath the KEM. It is not secure against
// chosen ciphertexts and is not exported.

// multiply sets product to the coefficients of a*b in Z[x]/(x^n - x - 1), where
// a is a transform. Those of the integer product before it is folded must lie
// strictly between -Q/2 and Q/2: the callers state why theirs do.
func (p *parameters) multiply(product, a spectrum, b poly) {
	p.forward(product, b)
	p.pointwise(product, product, a)
	p.inverse(product)
	p.fold(product)
}

// newKey returns room for the transform of a key.
func (p *parameters) newKey() spectrum {
	if p.vector != nil {
		return make(spectrum, p.vector.keyWords())
	}
	return make(spectrum, p.size)
}

// transform sets out to the transform of a key, |in[i]| <= q/2, in the form that
// encrypt and decrypt take.
func (p *parameters) transform(out spectrum, in poly) {
	if p.vector != nil {
		p.vector.transform(out, in)
		return
	}
	p.forward(out, in)
}

// transformOnce sets out to the transform of a key that serves one product and
// returns it. It returns nil if encrypt and decrypt take the key as it is.
func (p *parameters) transformOnce(out spectrum, in poly) spectrum {
	if p.vector != nil {
		return nil
	}
	p.forward(out, in)
	return out
}

// transformBoth is transformOnce for the secret in w.small and the public key in
// w.public.
func (p *parameters) transformBoth(w *workspace) (f, h spectrum) {
	if p.vector != nil {
		return nil, nil
	}
	return p.transformOnce(w.secretKey(), w.small), p.transformOnce(w.room, w.public)
}

// sampleKey starts a key from its seed: it sets f' and g to its centred binomial
// polynomials and writes the secret polynomial f = 2f'+1 into the packed
// private key sk. f is never zero in R_q.
func (p *parameters) sampleKey(sk []byte, half, g poly, seed []byte, w *workspace) {
	w.shake.Reset()
	w.shake.Write(seed)
	w.shake.Read(w.coins[:p.coinSize])
	p.sample(half, w.coins)
	p.packPrivatePoly(sk, half)
	w.shake.Read(w.coins[:p.coinSize])
	p.sample(g, w.coins)
}

// generate sets sk, a packed private key all but its z, to the key of a seed.
func (p *parameters) generate(sk, seed []byte, w *workspace, d *division) {
	f, g := w.large, w.small
	p.sampleKey(sk, f, g, seed, w)
	for i := range f {
		f[i] *= 2
	}
	f[0]++
	p.invertPoly(f, f, d)
	if p.vector != nil {
		p.vector.publish(sk[p.privatePoly:][:p.publicKeySize], f, g, w)
		return
	}
	key := w.secretKey()
	p.forward(key, f)
	// n * q/2 * eta < Q/2: 4.53M, 3.49M, 10.06M.
	p.multiply(w.product, key, g)
	p.packPublicKey(sk[p.privatePoly:], w.product)
}

// encrypt sets ct to the encryption of w.message under the public key whose
// transform is h, with coinSize bytes of coins in w.coins.
func (p *parameters) encrypt(ct []byte, h spectrum, w *workspace) {
	if p.vector != nil {
		p.vector.encrypt(ct, h, w)
		return
	}
	p.sample(w.small, w.coins)
	// n * q/2 * eta < Q/2: 4.53M, 3.49M, 10.06M.
	p.multiply(w.product, h, w.small)
	p.encode(ct, w.product, w.message)
}

// encode packs into ct the coefficients sigma, |sigma[i]| <= 2^26, compressed
// modulo 2^d and with the message added to them.
func (p *parameters) encode(ct []byte, sigma spectrum, message []byte) {
	var v [8]uint16
	for i := range p.groups() {
		word := uint16(0) // the coefficients after the last block carry none
		if i/2 < len(message) {
			word = uint16(codeword(message[i/2] >> (i % 2 * 4)))
		}
		p.compress(&v, (*[8]int32)(sigma[8*i:]), word)
		packGroup(ct[int(p.d)*i:p.ciphertextSize], &v, p.d)
	}
}

// decrypt sets w.message to the decryption of ct under the secret whose
// transform is f.
func (p *parameters) decrypt(ct []byte, f spectrum, w *workspace) {
	if p.vector != nil {
		p.vector.decrypt(ct, f, w)
		return
	}
	p.unpackCiphertext(w.large, ct)
	// n * 2^d/2 * (2*eta+1) < Q/2: 4.68M, 1.95M, 3.27M.
	p.multiply(w.product, f, w.large)
	p.decode(w.message, w.product)
}

// decode sets message to the one that is nearest to the coefficients t, which
// are taken modulo 2^d.
func (p *parameters) decode(message []byte, t spectrum) {
	for i := range message {
		low := decodeBlock((*[8]int32)(t[16*i:]), p.d)
		high := decodeBlock((*[8]int32)(t[16*i+8:]), p.d)
		message[i] = low | high<<4
	}
}
