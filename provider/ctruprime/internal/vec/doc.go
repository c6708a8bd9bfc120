// Package vec does the arithmetic of CTRU-Prime with the vector instructions of
// a processor: products of polynomials, sampling, coding, Keccak. It knows
// rings, bits and moduli; it must not know what a key is or which bytes are
// hashed. Its routines take a time that depends on lengths alone.
//
// The assembly is written by the generator in ../../asm and is checked in.
package vec

//go:generate go -C ../../asm run . -group keccak -out ../internal/vec/keccak_amd64.s -stubs ../internal/vec/keccak_amd64.go -pkg vec
//go:generate go -C ../../asm run . -group ring -out ../internal/vec/ring_amd64.s -stubs ../internal/vec/ring_amd64.go -pkg vec
//go:generate go -C ../../asm run . -group lift -out ../internal/vec/lift_amd64.s -stubs ../internal/vec/lift_amd64.go -pkg vec
//go:generate go -C ../../asm run . -group coding -out ../internal/vec/coding_amd64.s -stubs ../internal/vec/coding_amd64.go -pkg vec
//go:generate go -C ../../asm run . -group decode -out ../internal/vec/decode_amd64.s -stubs ../internal/vec/decode_amd64.go -pkg vec
//go:generate go -C ../../asm run . -group inverse -out ../internal/vec/inverse_amd64.s -stubs ../internal/vec/inverse_amd64.go -pkg vec
