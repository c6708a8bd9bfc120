package ctruprime

import "encoding/binary"

// Values of 10, 11 and 13 bits are packed little-endian, eight at a time:
// eight values of b bits are b bytes.

// packGroup packs the low bits of eight values into out, b bytes long, and
// zeroes the bytes from there to out[15].
func packGroup(out *[16]byte, v *[8]uint16, b uint) {
	b &= 15
	low := uint64(v[0]) | uint64(v[1])<<b | uint64(v[2])<<(2*b) | uint64(v[3])<<(3*b)
	high := uint64(v[4]) | uint64(v[5])<<b | uint64(v[6])<<(2*b) | uint64(v[7])<<(3*b)
	binary.LittleEndian.PutUint64(out[:8], low|high<<(4*b))
	binary.LittleEndian.PutUint64(out[8:], high>>(64-4*b))
}

// unpackGroup is the inverse of packGroup.
func unpackGroup(v *[8]uint16, in *[16]byte, b uint) {
	b &= 15
	low := binary.LittleEndian.Uint64(in[:8])
	high := low>>(4*b) | binary.LittleEndian.Uint64(in[8:])<<(64-4*b)
	mask := uint64(1)<<b - 1
	v[0], v[1] = uint16(low&mask), uint16(low>>b&mask)
	v[2], v[3] = uint16(low>>(2*b)&mask), uint16(low>>(3*b)&mask)
	v[4], v[5] = uint16(high&mask), uint16(high>>b&mask)
	v[6], v[7] = uint16(high>>(2*b)&mask), uint16(high>>(3*b)&mask)
}

// pack writes the first n values, each below 2^b, to out. v is padded with
// zeros to a whole group.
func pack(out []byte, v []uint16, n int, b uint) {
	size := bytesFor(n * int(b))
	out = out[:size]
	for i := 0; i < n; i += 8 {
		group := (*[8]uint16)(v[i:])
		if rest := out[i/8*int(b):]; len(rest) >= 16 {
			packGroup((*[16]byte)(rest), group, b)
		} else {
			var last [16]byte
			packGroup(&last, group, b)
			copy(rest, last[:b])
		}
	}
}

// unpack reads n values of b bits from in and sets v, up to a whole group, to
// them and to what the padding holds.
func unpack(v []uint16, in []byte, n int, b uint) {
	in = in[:bytesFor(n*int(b))]
	for i := 0; i < n; i += 8 {
		group := (*[8]uint16)(v[i:])
		if rest := in[i/8*int(b):]; len(rest) >= 16 {
			unpackGroup(group, (*[16]byte)(rest), b)
		} else {
			var last [16]byte
			copy(last[:b], rest)
			unpackGroup(group, &last, b)
		}
	}
}

// unpackPublicKey sets h to the centred coefficients of a packed public key.
// It reports whether the key is valid: every coefficient below q, padding
// zero. The key is public.
func (p *parameters) unpackPublicKey(h poly, pk []byte, v []uint16) bool {
	unpack(v, pk, p.n, codedPublicKeyBits)
	excess := int32(0) // negative once a coefficient is q or more
	for i, x := range v[:p.n] {
		excess |= p.q - 1 - int32(x)
		h[i] = int16(p.centre(int32(x)))
	}
	padding := uint16(0)
	for _, x := range v[p.n : (p.n+7)/8*8] {
		padding |= x
	}
	clear(h[p.n:])
	return excess >= 0 && padding == 0
}

// packPrivatePoly packs the secret f as nibbles 2*eta+1 - f[i].
func (p *parameters) packPrivatePoly(out []byte, f poly) {
	top := int16(2*p.eta + 1)
	for i := range out[:p.n/2] {
		out[i] = byte(top-f[2*i]) | byte(top-f[2*i+1])<<4
	}
	out[p.n/2] = byte(top - f[p.n-1]) // n is odd
}

// unpackPrivatePoly is the inverse of packPrivatePoly. It reports whether every
// nibble is at most 4*eta+1 and the padding is zero, and takes the same time
// whatever the nibbles are: |f[i]| <= 2*eta+1 for a valid key, <= 15 - 2*eta
// at worst.
func (p *parameters) unpackPrivatePoly(f poly, in []byte) bool {
	top := int16(2*p.eta + 1)
	limit := int16(4*p.eta + 1)
	excess := int16(0)
	for i, x := range in[:p.n/2] {
		low, high := int16(x&15), int16(x>>4)
		excess |= limit - low | limit - high
		f[2*i], f[2*i+1] = top-low, top-high
	}
	last := int16(in[p.n/2]) // a byte above 15 has padding, and exceeds
	excess |= limit - last
	f[p.n-1] = top - last&15
	clear(f[p.n:])
	return excess >= 0
}
