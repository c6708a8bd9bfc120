//go:build sim

package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

// ring is a parameter set as the specification has it, for products by the schoolbook.
type ring struct{ n, q, eta, d int }

var rings = []ring{{653, 4621, 3, 11}, {761, 4591, 2, 10}, {1277, 7879, 2, 10}}

// multiply is a*b in Z[x]/(x^n - x - 1), exactly.
func (r ring) multiply(a, b []int) []int {
	s := make([]int, 2*r.n)
	for i, x := range a {
		if x != 0 {
			for j, y := range b {
				s[i+j] += x * y
			}
		}
	}
	c := s[:r.n:r.n]
	for i := r.n; i < 2*r.n-1; i++ {
		c[i-r.n] += s[i]
		c[i-r.n+1] += s[i]
	}
	return c
}

func mod(x, m int) int { return ((x % m) + m) % m }

// polynomial makes coefficients by index.
func (r ring) polynomial(f func(i int) int) []int {
	p := make([]int, r.n)
	for i := range p {
		p[i] = f(i)
	}
	return p
}

// extremes are polynomials with coefficients in [low, high] that make products large: constant, alternating and random ends.
func (r ring) extremes(low, high int, rng *rand.Rand) [][]int {
	end := func(top bool) int {
		if top {
			return high
		}
		return low
	}
	return [][]int{
		r.polynomial(func(int) int { return high }),
		r.polynomial(func(int) int { return low }),
		r.polynomial(func(i int) int { return end(i%2 == 0) }),
		r.polynomial(func(int) int { return end(rng.IntN(2) == 0) }),
		r.polynomial(func(int) int { return low + rng.IntN(high-low+1) }),
	}
}

// pack is the scheme's bit packing.
func pack(values []int, width, size int) []byte {
	out := make([]byte, size)
	for i, v := range values {
		for bit := range width {
			if at := i*width + bit; v>>bit&1 == 1 {
				out[at/8] |= 1 << (at % 8)
			}
		}
	}
	return out
}

// single runs one launch of a plan alone, with the given contents of its buffers, and returns what is in one of them.
func single(t *testing.T, card *bench.Card, stream driver.Stream, b *bench.Batch, launch int, contents map[kernels.Buffer][]byte, result kernels.Buffer, size int) []byte {
	t.Helper()
	for to, data := range contents {
		check(t, card.API.CopyToDevice(b.Buffers[to], data, stream))
	}
	all := b.Plan.Launches
	b.Plan.Launches = all[launch : launch+1]
	check(t, b.Run(stream))
	b.Plan.Launches = all
	out := make([]byte, size)
	check(t, card.API.CopyToHost(out, b.Buffers[result], stream))
	check(t, card.API.StreamSynchronize(stream))
	return out
}

// Products of two elements of R_q are right at their largest: keygen_up of each multiplication against the schoolbook.
func TestProductsOfResidues(t *testing.T) {
	for _, r := range rings {
		set := newSet(t, r.n)
		for _, m := range kernels.Multiplications() {
			t.Run(fmt.Sprintf("%d/%s", r.n, m), func(t *testing.T) {
				card, stream, _ := simulator(t)
				rng := rand.New(rand.NewPCG(*seed, uint64(r.n)))
				operands := slices.Concat(r.extremes(0, r.q-1, rng), r.extremes((r.q-1)/2, (r.q+1)/2, rng))
				// group 4, and four keys for each product: level 2 has one row for two of level 1
				b, err := card.NewBatch(set, kernels.KeyGen, 2*len(operands), kernels.Options{Multiplication: m, Shape: kernels.Split, Group: 4}, stream)
				check(t, err)
				defer func() { check(t, b.Free()) }()
				up := b.Plan.Launches[2]
				below, level := up.Args()[0].Offset, up.Args()[1].Offset
				row := 2 * ((level - below) / 2 / len(operands) / 16 * 16) // bytes; rows lie together, up to the alignment of arrays
				row = min(row, map[int]int{653: 1536, 761: 1536, 1277: 2560}[r.n])
				scratch := make([]byte, b.Plan.ScratchSize)
				for i, a := range operands {
					for j, v := range a {
						binary.LittleEndian.PutUint16(scratch[below+i*row+2*j:], uint16(v))
					}
				}
				got := single(t, card, stream, b, 2, map[kernels.Buffer][]byte{kernels.Scratch: scratch}, kernels.Scratch, b.Plan.ScratchSize)
				for i := range len(operands) / 2 {
					want := r.multiply(operands[2*i], operands[2*i+1])
					for j := range want {
						if v := int(binary.LittleEndian.Uint16(got[level+i*row+2*j:])); v != mod(want[j], r.q) {
							t.Fatalf("product %d: coefficient %d is %d, want %d", i, j, v, mod(want[j], r.q))
						}
					}
				}
			})
		}
	}
}

// coins makes coins whose centred binomial distribution is r: as many ones of the right sign as it takes.
func (r ring) coins(small []int) []byte {
	bits := make([]int, 2*r.eta*r.n)
	for i, v := range small {
		for k := range max(v, -v) {
			at := 2*r.eta*i + k
			if v < 0 {
				at += r.eta
			}
			bits[at] = 1
		}
	}
	return pack(bits, 1, (len(bits)+7)/8)
}

// Encryptions are right where h*r is at its largest: encaps_product of each multiplication, and the form for one public key.
func TestLargestEncryptions(t *testing.T) {
	for _, r := range rings {
		set := newSet(t, r.n)
		for _, m := range kernels.Multiplications() {
			for _, table := range []int{0, 1} {
				t.Run(fmt.Sprintf("%d/%s/table=%d", r.n, m, table), func(t *testing.T) {
					card, stream, _ := simulator(t)
					rng := rand.New(rand.NewPCG(*seed, uint64(r.n)))
					smalls := r.extremes(-r.eta, r.eta, rng)
					// centred, the largest residues are (q-1)/2 and, negative, (q+1)/2
					hs := slices.Concat(r.extremes((r.q-1)/2, (r.q+1)/2, rng), [][]int{r.polynomial(func(int) int { return r.q - 1 })})
					if table == 1 {
						hs = hs[rng.IntN(len(hs)):][:1]
					}
					n := len(hs) * len(smalls)
					b, err := card.NewBatch(set, kernels.Encaps, n, kernels.Options{Multiplication: m, Shape: kernels.Split, Table: table}, stream)
					check(t, err)
					defer func() { check(t, b.Free()) }()
					scratch := make([]byte, b.Plan.ScratchSize) // messages and keys are zero
					args := b.Plan.Launches[0].Args()
					coins, keys := args[5].Offset, args[6].Offset
					coinRow := map[int]int{653: 496, 761: 384, 1277: 640}[r.n]
					if keys-coins < n*coinRow {
						t.Fatal("coin rows are not where the test looks for them")
					}
					input, contents := make([]byte, b.Plan.InputSize), map[kernels.Buffer][]byte{kernels.Scratch: scratch}
					for i := range n {
						pk := pack(hs[i/len(smalls)], 13, set.PublicKeySize())
						if table == 1 {
							contents[kernels.Table] = pk
						} else {
							copy(input[i*set.InputSize(kernels.Encaps, false):], pk)
						}
						copy(scratch[coins+i*coinRow:], r.coins(smalls[i%len(smalls)]))
					}
					contents[kernels.Input] = input
					got := single(t, card, stream, b, 1, contents, kernels.Output, b.Plan.OutputSize)
					for i := range n {
						sigma := r.multiply(hs[i/len(smalls)], smalls[i%len(smalls)])
						for j := range sigma {
							sigma[j] = (mod(sigma[j], r.q)<<r.d + r.q/2) / r.q % (1 << r.d)
						}
						want := pack(sigma, r.d, set.CiphertextSize())
						if !slices.Equal(got[i*set.OutputSize(kernels.Encaps):][:len(want)], want) {
							t.Fatalf("encryption %d differs", i)
						}
					}
				})
			}
		}
	}
}

// decode is the specification's E8 decoder, for one block.
func (r ring) decode(v []int) int {
	q2 := 1 << r.d
	square := func(x int) int { return x * x }
	best, answer := -1, 0
	for flip := range 2 {
		m, cost, weakest, least := 0, 0, 0, -1
		for i := range 4 {
			c0 := func(k int) int { return square(min(v[k], q2-v[k])) }
			c1 := func(k int) int { return square(v[k] - q2/2) }
			a, b := c0(2*i)+c0(2*i+1), c1(2*i)+c1(2*i+1)
			if flip == 1 {
				a, b = c1(2*i)+c0(2*i+1), c0(2*i)+c1(2*i+1)
			}
			if b < a {
				m |= 1 << i
			}
			cost += min(a, b)
			if delta := max(a-b, b-a); least < 0 || delta < least {
				least, weakest = delta, i
			}
		}
		if (m^m>>1^m>>2^m>>3)&1 == 1 {
			m ^= 1 << weakest
			cost += least
		}
		if best < 0 || cost < best {
			best, answer = cost, ((m^m<<1)&3|m>>1&4)<<1|flip
		}
	}
	return answer
}

// Decryptions are right where c*f is at its largest: decaps_decrypt of each multiplication.
func TestLargestDecryptions(t *testing.T) {
	for _, r := range rings {
		set := newSet(t, r.n)
		for _, m := range kernels.Multiplications() {
			t.Run(fmt.Sprintf("%d/%s", r.n, m), func(t *testing.T) {
				card, stream, _ := simulator(t)
				rng := rand.New(rand.NewPCG(*seed, uint64(r.n)))
				secrets := r.extremes(-2*r.eta, 2*r.eta+1, rng) // f_0 may be one more than the others
				q2 := 1 << r.d
				ciphers := slices.Concat(r.extremes(0, q2-1, rng), r.extremes(q2/2-1, q2/2, rng))
				n := len(secrets) * len(ciphers)
				b, err := card.NewBatch(set, kernels.Decaps, n, kernels.Options{Multiplication: m, Shape: kernels.Split}, stream)
				check(t, err)
				defer func() { check(t, b.Free()) }()
				input := make([]byte, b.Plan.InputSize)
				for i := range n {
					row := input[i*set.InputSize(kernels.Decaps, false):]
					nibbles := r.polynomial(func(j int) int { return 2*r.eta + 1 - secrets[i/len(ciphers)][j] })
					copy(row, pack(nibbles, 4, (r.n+1)/2))
					copy(row[set.SecretKeySize():], pack(ciphers[i%len(ciphers)], r.d, set.CiphertextSize()))
				}
				args := b.Plan.Launches[0].Args()
				messages, messageRow := args[6].Offset, map[int]int{653: 48, 761: 48, 1277: 80}[r.n]
				got := single(t, card, stream, b, 0, map[kernels.Buffer][]byte{kernels.Input: input, kernels.Scratch: make([]byte, b.Plan.ScratchSize)},
					kernels.Scratch, b.Plan.ScratchSize)
				for i := range n {
					c := r.multiply(secrets[i/len(ciphers)], ciphers[i%len(ciphers)])
					for j := range c {
						c[j] = mod(c[j], q2)
					}
					for block := range 2 * (r.n / 16) {
						nibble := int(got[messages+i*messageRow+block/2]) >> (4 * (block % 2)) & 15
						if want := r.decode(c[8*block : 8*block+8]); nibble != want {
							t.Fatalf("decryption %d: block %d is %d, want %d", i, block, nibble, want)
						}
					}
				}
			})
		}
	}
}
