package ctruprime

import "encoding/binary"

// sampleSize is the length of a buffer of coins that sample can read: whole
// steps of 16 coefficients.
func (p *parameters) sampleSize() int { return (p.n+15)/16*4*p.eta + 4 }

// sample sets out to the centred binomial polynomial of the coins: coefficient
// i is the sum of eta bits from bit 2*eta*i on, minus the sum of the next eta.
// coins holds parameters.coinSize bytes of coins in sampleSize bytes.
func (p *parameters) sample(out poly, coins []byte) {
	if p.eta == 2 {
		sample2(out, coins, p.n)
	} else {
		sample3(out, coins, p.n)
	}
	clear(out[p.n:])
}

// sample2 takes four bits a coefficient, 16 coefficients a step.
func sample2(out poly, coins []byte, n int) {
	for i := 0; i < n; i += 16 {
		t := binary.LittleEndian.Uint64(coins[i/2:])
		const ones, pairs = 0x5555555555555555, 0x3333333333333333
		t = t&ones + t>>1&ones
		// Each nibble: 4 + first sum - second sum, in [2, 6].
		t = t&pairs + 0x4444444444444444 - t>>2&pairs
		step := (*[16]int16)(out[i:])
		for j := 0; j < len(step); j += 4 {
			step[j], step[j+1] = int16(t&15)-4, int16(t>>4&15)-4
			step[j+2], step[j+3] = int16(t>>8&15)-4, int16(t>>12&15)-4
			t >>= 16
		}
	}
}

// sample3 takes six bits a coefficient, eight coefficients a step.
func sample3(out poly, coins []byte, n int) {
	for i := 0; i < n; i += 8 {
		t := binary.LittleEndian.Uint64(coins[i/8*6:])
		const ones = 0x249249249249 // every third bit of 48
		t = t&ones + t>>1&ones + t>>2&ones
		step := (*[8]int16)(out[i:])
		for j := 0; j < len(step); j += 2 {
			step[j] = int16(t&7) - int16(t>>3&7)
			step[j+1] = int16(t>>6&7) - int16(t>>9&7)
			t >>= 12
		}
	}
}
