package ctruprime

import "encoding/binary"

// Values of b = 10, 11 or 13 bits are packed little-endian in groups of eight,
// which are b bytes. The last group of n values is cut off after
// bytesFor(n*b) bytes in all.

// groups is the number of groups that n values take.
func (p *parameters) groups() int { return (p.n + 7) / 8 }

// packGroup packs eight values below 2^b into the first b bytes of out, or into
// all of it if it is the shorter last group. It may zero bytes beyond the
// group, which the next one overwrites.
func packGroup(out []byte, v *[8]uint16, b uint) {
	b &= 15
	low := uint64(v[0]) | uint64(v[1])<<b | uint64(v[2])<<(2*b) | uint64(v[3])<<(3*b)
	high := uint64(v[4]) | uint64(v[5])<<b | uint64(v[6])<<(2*b) | uint64(v[7])<<(3*b)
	low, high = low|high<<(4*b), high>>(64-4*b)
	if len(out) < 16 {
		packLast(out, low, high, b)
		return
	}
	binary.LittleEndian.PutUint64(out[:8], low)
	binary.LittleEndian.PutUint64(out[8:16], high)
}

// packLast writes b bytes, or as many as out has.
func packLast(out []byte, low, high uint64, b uint) {
	var last [16]byte
	binary.LittleEndian.PutUint64(last[:8], low)
	binary.LittleEndian.PutUint64(last[8:], high)
	copy(out, last[:b])
}

// unpackGroup reads eight values from the first b bytes of in, or from the
// whole of a shorter last group, with zeros for what is cut off.
func unpackGroup(v *[8]uint16, in []byte, b uint) {
	low, high := loadGroup(in, b)
	b &= 15
	high = low>>(4*b) | high<<(64-4*b)
	mask := uint64(1)<<b - 1
	v[0], v[1] = uint16(low&mask), uint16(low>>b&mask)
	v[2], v[3] = uint16(low>>(2*b)&mask), uint16(low>>(3*b)&mask)
	v[4], v[5] = uint16(high&mask), uint16(high>>b&mask)
	v[6], v[7] = uint16(high>>(2*b)&mask), uint16(high>>(3*b)&mask)
}

// loadGroup reads 16 bytes, of which a group takes the first b.
func loadGroup(in []byte, b uint) (low, high uint64) {
	if len(in) < 16 {
		return loadLast(in, b)
	}
	return binary.LittleEndian.Uint64(in[:8]), binary.LittleEndian.Uint64(in[8:16])
}

// loadLast reads b bytes, or as many as in has, and zeros for the others.
func loadLast(in []byte, b uint) (low, high uint64) {
	var last [16]byte
	copy(last[:b], in)
	return loadGroup(last[:], b)
}

// packPublicKey packs h mod q, for |h[i]| <= 2^26. h is zero from n on.
func (p *parameters) packPublicKey(out []byte, h spectrum) {
	var v [8]uint16
	for i := range p.groups() {
		p.reduce(&v, (*[8]int32)(h[8*i:]))
		packGroup(out[codedPublicKeyBits*i:p.publicKeySize], &v, codedPublicKeyBits)
	}
}

// unpackPublicKey sets h to the centred coefficients of a packed public key.
// It reports whether the key is valid: every coefficient below q, padding
// zero. The key is public.
func (p *parameters) unpackPublicKey(h poly, pk []byte) bool {
	if p.vector != nil {
		return p.vector.unpackPublicKey(h, pk)
	}
	var v [8]uint16
	q, half := int16(p.q), int16(p.q/2)
	excess := int16(0) // negative once a coefficient is q or more
	for i := range p.groups() {
		unpackGroup(&v, pk[codedPublicKeyBits*i:p.publicKeySize], codedPublicKeyBits)
		out := (*[8]int16)(h[8*i:])
		for j, x := range &v {
			y := int16(x)
			excess |= q - 1 - y
			out[j] = y - q&((half-y)>>15) // as centre does
		}
	}
	padding := int16(0)
	for _, x := range h[p.n : 8*p.groups()] {
		padding |= x
	}
	clear(h[p.n:])
	return excess >= 0 && padding == 0
}

// unpackCiphertext sets c to the coefficients of a ciphertext, each the
// representative modulo 2^d in [-2^d/2, 2^d/2). Padding is ignored.
func (p *parameters) unpackCiphertext(c poly, ct []byte) {
	var v [8]uint16
	shift := 16 - p.d&15
	for i := range p.groups() {
		unpackGroup(&v, ct[int(p.d)*i:p.ciphertextSize], p.d)
		out := (*[8]int16)(c[8*i:])
		for j, x := range &v {
			out[j] = int16(x<<(shift&15)) >> (shift & 15)
		}
	}
	clear(c[p.n:])
}

// packPrivatePoly packs the secret f = 2f'+1 as nibbles 2*eta+1 - f[i], given
// half = f'.
func (p *parameters) packPrivatePoly(out []byte, half poly) {
	if p.vector != nil {
		p.vector.packPrivatePoly(out, half)
		return
	}
	eta := int16(p.eta)
	for i := range out[:p.n/2] {
		out[i] = byte(2*(eta-half[2*i])+1) | byte(2*(eta-half[2*i+1])+1)<<4
	}
	out[p.n/2] = byte(2*(eta-half[p.n-1]) + 1) // n is odd
	out[0]--                                   // f[0] = 2*f'[0] + 1
}

// unpackPrivatePoly is the inverse of packPrivatePoly. It reports whether every
// nibble is at most 4*eta+1 and the padding is zero, and takes the same time
// whatever the nibbles are: |f[i]| <= 2*eta+1 for a valid key, <= 15 - 2*eta
// at worst. What it reports is public.
func (p *parameters) unpackPrivatePoly(f poly, in []byte) bool {
	if p.vector != nil {
		return declassify(p.vector.unpackPrivatePoly(f, in))
	}
	top := int16(2*p.eta + 1)
	limit := int16(4*p.eta + 1)
	excess := int16(0)
	for i, x := range in[:p.n/2] {
		low, high := int16(x&15), int16(x>>4)
		excess |= (limit - low) | (limit - high)
		f[2*i], f[2*i+1] = top-low, top-high
	}
	last := int16(in[p.n/2]) // a byte above 15 has padding, and exceeds
	excess |= limit - last
	f[p.n-1] = top - last&15
	clear(f[p.n:])
	return declassify(excess >= 0)
}
