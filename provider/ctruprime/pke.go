package ctruprime

// The public-key encryption scheme beneath the KEM. It is not secure against
// chosen ciphertexts and is not exported.

// multiply sets w.product to the coefficients of a*b in R_q or in
// Z[x]/(x^n - x - 1), where a is a transform and b short: whatever bounds the
// operands have, those of the integer product before it is folded must lie
// strictly between -Q/2 and Q/2. The callers state theirs.
func (p *parameters) multiply(product, a spectrum, b poly) {
	p.forward(product, b)
	p.pointwise(product, product, a)
	p.inverse(product)
	p.fold(product)
}

// generate sets sk, a packed private key all but its z, to the key of a seed.
func (p *parameters) generate(sk, seed []byte, w *workspace, d *division) {
	w.shake.Reset()
	w.shake.Write(seed)

	f, inverse := w.small, w.large
	p.sampleSecret(f, w)
	p.packPrivatePoly(sk[:p.privatePoly], f)
	p.invertPoly(inverse, f, d)
	p.forward(w.key, inverse)

	g := w.small
	w.shake.Read(w.coins[:p.coinSize])
	p.sample(g, w.coins)
	// n * q/2 * eta < Q/2: 4.53M, 3.49M, 10.06M.
	p.multiply(w.product, w.key, g)
	p.packPublicKey(sk[p.privatePoly:][:p.publicKeySize], w.product, w.values)
}

// sampleSecret sets f to 2f'+1 for the centred binomial f' of the next coins
// of w.shake. It is never zero in R_q.
func (p *parameters) sampleSecret(f poly, w *workspace) {
	w.shake.Read(w.coins[:p.coinSize])
	p.sample(f, w.coins)
	for i := range f {
		f[i] *= 2
	}
	f[0]++
}

// packPublicKey packs h mod q, for |h[i]| < 2^25.
func (p *parameters) packPublicKey(out []byte, h spectrum, values []uint16) {
	for i, x := range h[:p.n] {
		values[i] = uint16(p.reduce(x))
	}
	p.clearPadding(values)
	pack(out, values, p.n, codedPublicKeyBits)
}

// clearPadding zeroes what pads n values to whole groups.
func (p *parameters) clearPadding(values []uint16) {
	clear(values[p.n:])
}

// encrypt sets ct to the encryption of w.message under the public key whose
// transform is h, with coinSize bytes of coins in w.coins.
func (p *parameters) encrypt(ct []byte, h spectrum, w *workspace) {
	p.sample(w.small, w.coins)
	// n * q/2 * eta < Q/2: 4.53M, 3.49M, 10.06M.
	p.multiply(w.product, h, w.small)
	for i, x := range w.product[:p.n] {
		w.values[i] = p.compress(x)
	}
	p.addMessage(w.values, w.message)
	p.clearPadding(w.values)
	pack(ct, w.values, p.n, p.d)
}

// addMessage adds 2^d/2, modulo 2^d, to each coefficient whose codeword bit is
// one. The coefficients after the last block carry none.
func (p *parameters) addMessage(c []uint16, m []byte) {
	for i, b := range m {
		group := (*[16]uint16)(c[16*i:])
		word := uint16(codeword(b)) | uint16(codeword(b>>4))<<8
		for j := range group {
			group[j] ^= word >> j & 1 << ((p.d - 1) & 15)
		}
	}
}

// decrypt sets w.message to the decryption of ct under the secret whose
// transform is f.
func (p *parameters) decrypt(ct []byte, f spectrum, w *workspace) {
	unpack(w.values, ct, p.n, p.d)
	for i, x := range w.values[:p.n] {
		// The representative of x modulo 2^d in [-2^d/2, 2^d/2).
		shift := 16 - p.d&15
		w.large[i] = int16(x<<shift) >> shift
	}
	clear(w.large[p.n:])
	// n * 2^d/2 * (2*eta+1) < Q/2: 4.68M, 1.95M, 3.27M.
	p.multiply(w.product, f, w.large)
	mask := int32(1)<<(p.d&15) - 1
	for i := range w.message {
		var low, high [8]uint16
		for j := range low {
			low[j] = uint16(w.product[16*i+j] & mask)
			high[j] = uint16(w.product[16*i+8+j] & mask)
		}
		w.message[i] = decodeBlock(&low, p.d) | decodeBlock(&high, p.d)<<4
	}
}
