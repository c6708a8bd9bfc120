package ctruprime

import (
	"crypto/rand"
	"testing"
)

func BenchmarkParts(b *testing.B) {
	for _, s := range []*Scheme{scheme761, scheme1277} {
		w := newWorkspace(&s.parameters)
		d := newDivision(&s.parameters)
		rand.Read(w.coins)
		rand.Read(w.message)
		s.sample(w.small, w.coins)
		p := &s.parameters
		ct := make([]byte, s.ciphertextSize)
		pk := make([]byte, s.publicKeySize)
		seed := make([]byte, 32)
		var blk [8]int32
		parts := []struct {
			name string
			f    func()
		}{
			{"forward", func() { p.forward(w.key, w.small) }},
			{"forwardFirst", func() { p.forwardFirst(w.key, w.small) }},
			{"forwardPass8", func() { p.forwardPass(w.key, 8) }},
			{"forwardPass128", func() { p.forwardPass(w.key, 128) }},
			{"inverse", func() { p.inverse(w.product) }},
			{"inversePass8", func() { p.inversePass(w.product, 8) }},
			{"inversePass128", func() { p.inversePass(w.product, 128) }},
			{"inverseLast", func() { p.inverseLast(w.product) }},
			{"pointwise", func() { p.pointwise(w.product, w.key, w.product) }},
			{"fold", func() { p.fold(w.product) }},
			{"sample", func() { p.sample(w.small, w.coins) }},
			{"compress", func() {
				var v [8]uint16
				for i := range p.groups() {
					p.compress(&v, (*[8]int32)(w.product[8*i:]), 5)
				}
			}},
			{"packct", func() {
				var v [8]uint16
				for i := range p.groups() {
					packGroup(ct[10*i:], &v, 10)
				}
			}},
			{"unpackpk", func() { p.unpackPublicKey(w.large, pk) }},
			{"decodeBlock", func() { decodeBlock(&blk, p.d) }},
			{"decrypt", func() { p.decrypt(ct, w.key, w) }},
			{"shake", func() { w.expand(w.coins[:p.coinSize], seed) }},
			{"derive", func() { w.deriveKey(w.hashed) }},
			{"wipe", func() { w.wipe() }},
			{"invert", func() { w.small[0] = 1; p.invertPoly(w.large, w.small, d) }},
		}
		for _, part := range parts {
			b.Run(part.name+"/"+s.name, func(b *testing.B) {
				for b.Loop() {
					part.f()
				}
			})
		}
	}
}
