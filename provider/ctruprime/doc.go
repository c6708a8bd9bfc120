// Package ctruprime implements the key encapsulation mechanism CTRU-Prime in
// its three parameter sets, on the CPU: in portable Go, and in vector code on
// processors with AVX2 or AVX-512.
//
// CTRU-Prime is an NTRU-type KEM over the field Z_q[x]/(x^n - x - 1). Its
// ciphertexts are one polynomial, compressed, that carries the message in an E8
// lattice code. All sizes are in bytes:
//
//	                      CTRU-Prime-653  CTRU-Prime-761  CTRU-Prime-1277
//	public key                      1062            1237             2076
//	private key                     1421            1650             2747
//	ciphertext                       898             952             1597
//	shared key                        32              32               32
//	key seed                          64              64               64
//	encapsulation seed                32              32               32
//	Core-SVP, classical            2^152           2^173            2^299
//	Core-SVP, quantum              2^137           2^157            2^271
//	decryption failure, at most   2^-250          2^-136            2^-92
//
// CTRU-Prime-761 is the default choice. The failure rate of CTRU-Prime-1277 is
// high for its security level: use its keys for one exchange each, as TLS
// does, and do not keep them.
//
// # Use
//
// Each set is a *[Scheme], which implements kem.Scheme of
// github.com/cloudflare/circl. Beside that interface it has methods that write
// into the caller's buffers and allocate nothing, some of which take packed
// keys, and [Scheme.GenerateKeysBytes], which makes many keys for much less than
// one by one costs. Everything is safe for concurrent use.
//
// Decapsulation rejects implicitly: a ciphertext that was not made for the key
// yields a shared key that depends on a secret of the private key, and no error.
//
// # Secrets
//
// Every operation takes a time and touches memory that depend on lengths and
// public keys only, not on secret values: there is no secret-dependent branch,
// index or division. Whether a packed private key is valid shows, and whether one
// that is generated begins with 128 zeros (a probability of 2^-181), and nothing
// else about it. Scratch memory that has held secrets is zeroed before it is
// reused or left to the garbage collector; what the compiler keeps in registers
// and on stacks is beyond reach.
//
// # Vector code
//
// On amd64 the processor decides, at run time, whether a Scheme uses portable
// code, AVX2 with BMI2, or AVX-512 (F, BW, DQ and VL, and VNNI and VBMI where
// it has them) beside it; -tags noasm leaves portable code only. All of them
// compute the same bytes. Products use three transforms modulo primes of 12
// and 13 bits in place of one modulo 2^25 - 2^12 + 1, division steps run on
// whole polynomials, and up to four hashes run at once, of several operations
// or the two of one decapsulation: see internal/vec. A parsed key belongs to
// the Scheme that parsed it and takes some 12 to 20 KiB.
// [Scheme.EncapsulateBatch] and [Scheme.DecapsulateBatch] share hashing
// between operations.
//
// # What it does not know
//
// The package knows nothing of TLS, X25519, batching across callers, or GPUs.
// Its portable arithmetic is in field.go and ntt.go (products), inverse.go
// (division), sample.go, pack.go and e8.go (codings); vector.go and lanes.go are
// what stands in its place; pke.go and kem.go are the scheme, scheme.go, group.go
// and batch.go its face. The tests hold all of it against a second
// implementation, reference_test.go, and against the Python model in testdata,
// and vector code against portable code.
//
// # Sources
//
// The scheme is CTRU-Prime as its authors describe it, with 13-bit packing of
// public keys and implicit rejection over every byte of the key. The transform
// modulo 2^25 - 2^12 + 1 follows the "pseudo-Mersenne incomplete NTT" of the
// scheme's GPU implementation; Plantard, "Efficient word size modular
// arithmetic" (IEEE TETC 9, 2021) and Huang et al., "Improved Plantard
// arithmetic for lattice-based cryptography" (TCHES 2022/4) describe its
// multiplication; Bernstein and Yang, "Fast constant-time gcd computation and
// modular inversion" (TCHES 2019/3) the division; Bernstein, Brumley, Chen and
// Tuveri, "OpenSSLNTRU" (USENIX Security 2022) the batches of keys.
package ctruprime
