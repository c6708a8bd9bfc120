//go:build sim || gputest

package testkernels_test

import (
	"encoding/binary"
	"math"
	"math/bits"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	. "github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// A column is one thread's view of a kernel: its inputs, and the results that it should have written, row by row.
type rows struct {
	threads int
	results [][]uint32
	next    int
}

func (r *rows) put(thread int, v uint32) {
	if r.next == len(r.results) {
		r.results = append(r.results, make([]uint32, r.threads))
	}
	r.results[r.next][thread] = v
	r.next++
}

func (r *rows) flat() []uint32 {
	var all []uint32
	for _, row := range r.results {
		all = append(all, row...)
	}
	return all
}

func compare(t *testing.T, threads int, got, want []uint32) {
	t.Helper()
	bad := 0
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d thread %d: got %#08x, want %#08x", i/threads, i%threads, got[i], want[i])
			if bad++; bad == 20 {
				t.Fatal("and more")
			}
		}
	}
}

// eachOrder runs a test in the plain order of threads and in some random ones (on a card, once).
func eachOrder(t *testing.T, test func(t *testing.T, h *Harness)) {
	h := New(t)
	if h.Sim == nil {
		test(t, h)
		return
	}
	for seed := range uint64(6) {
		h.Sim.SetSeed(seed)
		test(t, h)
	}
}

// runOps runs a kernel (in, out) in one block and returns its results.
func runOps(t *testing.T, h *Harness, name string, threads int, in []uint32, results int) []uint32 {
	t.Helper()
	out := h.Alloc(4 * results)
	p := new(driver.Params).Ptr(h.Upload(in)).Ptr(out)
	h.Check(h.Launch(name, driver.Shape{Block: driver.Dim{X: uint32(threads)}}, p))
	return h.Download(out, results)
}

func TestBits(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		const n = 256
		in := RandomWords(t, 3*n)
		want := rows{threads: n}
		for i := range n {
			a, b, c := in[i], in[n+i], in[2*n+i]
			w, v := uint64(a)<<32|uint64(b), uint64(c)<<32|uint64(a)
			want.next = 0
			put := func(r uint32) { want.put(i, r) }
			put(uint32(bits.OnesCount32(a)))
			put(uint32(bits.OnesCount64(w)))
			put(uint32(bits.LeadingZeros32(a)))
			put(uint32(bits.LeadingZeros64(w)))
			if a == 0 {
				put(0)
			} else {
				put(uint32(bits.TrailingZeros32(a)) + 1)
			}
			put(bits.Reverse32(a))
			put(bytePerm(a, b, c))
			put(uint32(int64(int32(a)) * int64(int32(b)) >> 32))
			hi, _ := bits.Mul32(a, b)
			put(hi)
			hi64, _ := bits.Mul64(w, v)
			put(uint32(hi64))
			put(uint32(hi64 >> 32))
			put(uint32((uint64(b)<<32 | uint64(a)) << (c & 31) >> 32))
			put(uint32((uint64(b)<<32 | uint64(a)) >> (c & 31)))
			ss, uu, su := c, c, c
			for k := 0; k < 32; k += 8 {
				ss += uint32(int32(int8(a>>k)) * int32(int8(b>>k)))
				uu += a >> k & 255 * (b >> k & 255)
				su += uint32(int32(int8(a>>k)) * int32(b>>k&255))
			}
			put(ss)
			put(uu)
			put(su)
			put(a ^ b ^ c)
			put(a&b | ^a&c)
			put(lop3(0x3b, a, b, c))
			put(uint32(min(int32(a), int32(b))))
			put(uint32(max(int32(a), int32(b))))
			put(min(a, b))
			put(max(a, b))
			put([]uint32{3, 1, 4, 1, 5, 9, 2, 6}[a&7])
		}
		compare(t, n, runOps(t, h, "ops_bits", n, in, len(want.flat())), want.flat())
	})
}

// bytePerm is prmt (PTX ISA 9.7.8.7).
func bytePerm(a, b, selector uint32) uint32 {
	bytes := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, a), b)
	var r uint32
	for i := range 4 {
		pick := selector >> (4 * i) & 15
		v := bytes[pick&7]
		if pick&8 != 0 {
			v = byte(int8(v) >> 7)
		}
		r |= uint32(v) << (8 * i)
	}
	return r
}

func lop3(table int, a, b, c uint32) uint32 {
	var r uint32
	for i := range 32 {
		index := a>>i&1<<2 | b>>i&1<<1 | c>>i&1
		r |= uint32(table>>index&1) << i
	}
	return r
}

func TestCarry(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		const n = 256
		in := RandomWords(t, 4*n)
		want := rows{threads: n}
		for i := range n {
			a, b, c, d := in[i], in[n+i], in[2*n+i], in[3*n+i]
			want.next = 0
			put := func(r uint32) { want.put(i, r) }
			r, carry := bits.Add32(a, b, 0)
			put(r)
			r, carry = bits.Add32(c, d, carry)
			put(r)
			put(a + carry)
			r, carry = bits.Sub32(a, b, 0)
			put(r)
			r, carry = bits.Sub32(c, d, carry)
			put(r)
			put(a - carry)
			hi, lo := bits.Mul32(a, b)
			r, carry = bits.Add32(lo, c, 0)
			put(r)
			r, carry = bits.Add32(hi, d, carry)
			put(r)
			put(carry)
			r, carry = bits.Add32(hi, c, 0)
			put(r)
			hi, lo = bits.Mul32(c, d)
			r, carry = bits.Add32(lo, b, carry)
			put(r)
			put(hi + a + carry)
			r, carry = bits.Add32(a, b, 0)
			put(r)
			put(lo + a + carry)
		}
		compare(t, n, runOps(t, h, "ops_carry", n, in, len(want.flat())), want.flat())
	})
}

func TestFloat(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		const n = 256
		in := RandomWords(t, 3*n)
		want := rows{threads: n}
		for i := range n {
			a, b := float32(int32(in[i])>>8), float32(int32(in[n+i])>>12)
			c := math.Float32frombits(in[2*n+i]&0x807fffff | 0x40000000)
			want.next = 0
			put := func(r uint32) { want.put(i, r) }
			put(math.Float32bits(float32(a*c) + b))
			put(math.Float32bits(float32(fma(a, c, b))))
			put(math.Float32bits(a - float32(b*c)))
			put(uint32(int32(math.RoundToEven(float64(c)))))
			put(uint32(int32(math.RoundToEven(float64(float32(a * c))))))
			put(uint32(int32(float32(a * c))))
			put(in[i])
		}
		compare(t, n, runOps(t, h, "ops_float", n, in, len(want.flat())), want.flat())
	})
}

// fma rounds once: in float64 the product is exact, and the test's operands are small enough for the sum to be exact too.
func fma(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

func TestWarp(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		const n = 96
		in := RandomWords(t, 2*n)
		// One warp where everything holds, one of zeros.
		for i := range 32 {
			in[32+i] |= 5
			in[64+i] = 0
		}
		want := rows{threads: n}
		for i := range n {
			lane, warp := i%32, in[i/32*32:][:32]
			wide := func(l int) uint64 { return uint64(warp[l])<<32 | uint64(in[n+i/32*32+l]) }
			a, b := in[i], in[n+i]
			want.next = 0
			put := func(r uint32) { want.put(i, r) }
			put(warp[b&31])
			put(warp[lane&^7|int(b&7)])
			put(warp[pick(lane-3 >= 0, lane-3, lane)])
			put(warp[pick(lane%16 >= 5, lane-5, lane)])
			put(warp[pick(lane+7 < 32, lane+7, lane)])
			put(warp[pick(lane%4 < 3, lane+1, lane)])
			put(warp[lane^21])
			put(warp[lane^5])
			put(warp[lane^1] & 0x3fffffff)
			put(uint32(wide((lane + 9) % 32)))
			put(uint32(wide((lane+9)%32) >> 32))
			down := pick(lane%8 < 6, lane+2, lane)
			put(uint32(wide(down)))
			put(uint32(wide(down) >> 32))
			var odd, anyZero, sum, or, xor, most uint32
			all, and, least := uint32(1), ^uint32(0), ^uint32(0)
			for l, v := range warp {
				odd |= v & 1 << l
				if v == 0 {
					anyZero = 1
				}
				if v < 5 {
					all = 0
				}
				sum, and, or, xor = sum+v, and&(v|0xff00), or|v&0x00ff00ff, xor^v
				most, least = max(most, v), min(least, v)
			}
			for _, v := range []uint32{odd, anyZero, all, sum, and, or, xor, most, least} {
				put(v)
			}
			put(warp[lane^2])
			var vote uint32
			for l := lane &^ 3; l < lane&^3+4; l++ {
				vote |= warp[l] >> 1 & 1 << l
			}
			put(vote)
			if lane < 16 {
				put(warp[15-lane])
			} else {
				put(0)
			}
			_ = a
		}
		compare(t, n, runOps(t, h, "ops_warp", n, in, len(want.flat())), want.flat())
	})
}

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}

func TestBarriers(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		in := RandomWords(t, 128)
		v := make([]uint32, 128)
		for i := range v {
			v[i] = in[i^31] + in[127-i]
		}
		want := make([]uint32, 128)
		for i := range want {
			if i < 64 {
				want[i] = v[i] + v[63-i]
			} else {
				want[i] = v[i] + v[i-64]
			}
		}
		compare(t, 128, runOps(t, h, "ops_barriers", 128, in, 128), want)
	})
}

func TestLdmatrix(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		in := RandomWords(t, 32*4)
		half := func(row, i int) uint32 { return in[4*row+i/2] >> (16 * (i % 2)) & 0xffff }
		// Register m of lane l, where row(i) is the row that lane i of the matrices names.
		register := func(row func(int) int, m, l int, transposed bool) uint32 {
			r, c := l/4, 2*(l%4)
			if transposed {
				return half(row(8*m+c), r) | half(row(8*m+c+1), r)<<16
			}
			return half(row(8*m+r), c) | half(row(8*m+r), c+1)<<16
		}
		want := rows{threads: 32}
		for l := range 32 {
			want.next = 0
			for m := range 4 {
				want.put(l, register(func(i int) int { return i }, m, l, false))
			}
			for m := range 4 {
				want.put(l, register(func(i int) int { return 31 - i }, m, l, true))
			}
			for m := range 2 {
				want.put(l, register(func(i int) int { return i & 15 }, m, l, false))
			}
			for m := range 2 {
				want.put(l, register(func(i int) int { return i&15 + 3 }, m, l, true))
			}
			want.put(l, register(func(i int) int { return i & 7 }, 0, l, false))
			want.put(l, register(func(i int) int { return i & 7 }, 0, l, true))
		}
		compare(t, 32, runOps(t, h, "ops_ldmatrix", 32, in, len(want.flat())), want.flat())
	})
}

func TestMMA(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		in := RandomWords(t, 10*32)
		element := func(w uint32, i int, signed bool) int32 {
			if signed {
				return int32(int8(w >> (8 * i)))
			}
			return int32(w >> (8 * i) & 255)
		}
		// The matrices as the PTX ISA lays them over the lanes, read element by element.
		product := func(depth int, aSigned, bSigned bool, row, column int) uint32 {
			var sum int32
			for k := range depth {
				aLane := row%8*4 + k%16/4
				a := in[32*(row/8+2*(k/16))+aLane]
				bLane := column*4 + k%16/4
				b := in[32*(4+k/16)+bLane]
				sum += element(a, k%4, aSigned) * element(b, k%4, bSigned)
			}
			return uint32(sum)
		}
		want := rows{threads: 32}
		for l := range 32 {
			want.next = 0
			for _, depth := range []int{32, 16} {
				for _, signed := range [][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
					for j := range 4 {
						d := in[32*(6+j)+l]
						want.put(l, d+product(depth, signed[0], signed[1], l/4+8*(j/2), 2*(l%4)+j%2))
					}
				}
			}
		}
		compare(t, 32, runOps(t, h, "ops_mma", 32, in, len(want.flat())), want.flat())
	})
}

func TestCopies(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		in := RandomWords(t, 256)
		bytes := Bytes(in)
		filled := make([]byte, 512)
		for lane := range 32 {
			copy(filled[16*lane:], bytes[512+16*lane:][:lane%17])
		}
		b := Words(filled)
		want := rows{threads: 32}
		for l := range 32 {
			want.next = 0
			for _, v := range []uint32{in[l], in[127-l], b[l], b[127-l], in[63-l], in[31-l]} {
				want.put(l, v)
			}
		}
		compare(t, 32, runOps(t, h, "ops_copies", 32, in, len(want.flat())), want.flat())
	})
}

func TestMemory(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		const n = 64
		in := RandomWords(t, n)
		bytes := Bytes(in)
		want := rows{threads: n}
		for i := range n {
			want.next = 0
			put := func(v uint32) { want.put(i, v) }
			put(uint32(bytes[i]))
			put(uint32(binary.LittleEndian.Uint16(bytes[2*i:])))
			put(in[i])
			put(in[i])
			put(in[i/2*2+1])
			put(in[i/2*2+1])
			put(in[i/4*4+2])
			put(in[i])
			put(in[i/2*2])
			put(in[i/4*4+3])
			put(in[i])
			put(in[i] ^ -uint32(i%2))
			put([]uint32{in[i/4*4], in[i/4*4+1], 7, in[i/4*4+3]}[i%4])
		}
		compare(t, n, runOps(t, h, "ops_memory", n, in, len(want.flat())), want.flat())
	})
}

func TestAtomics(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		const blocks, threads = 7, 64
		in := RandomWords(t, blocks*threads)
		counters := h.Upload([]uint32{1, 2, 0xffffffff, 4, 5, 0xffffffff, 6, 0, 0})
		wide := h.Upload([]uint32{0, 0})
		p := new(driver.Params).Ptr(h.Upload(in)).Ptr(counters).Ptr(wide)
		h.Check(h.Launch("ops_atomics", driver.Shape{Grid: driver.Dim{X: blocks}, Block: driver.Dim{X: threads}}, p))
		want := []uint32{1, 2, 0xffffffff, 4, 5, 0xffffffff, 6, 1, 0}
		var wantWide uint64
		for _, v := range in {
			want[0] += v
			want[1] |= 1 << (v & 31)
			want[2] &^= 1 << (v >> 8 & 31)
			want[3] ^= v
			want[4] = max(want[4], v)
			want[5] = min(want[5], v)
			want[6] -= v & 0xff
			want[8] += v
			wantWide += uint64(v) << 20
		}
		compare(t, len(want), h.Download(counters, len(want)), want)
		compare(t, 2, h.Download(wide, 2), []uint32{uint32(wantWide), uint32(wantWide >> 32)})
	})
}

func TestFlags(t *testing.T) {
	eachOrder(t, func(t *testing.T, h *Harness) {
		in := RandomWords(t, 32)
		want := make([]uint32, 32)
		for i := range want {
			want[i] = in[31-i] + 1
		}
		compare(t, 32, runOps(t, h, "ops_flags", 64, in, 32), want)
	})
}

func TestClock(t *testing.T) {
	h := New(t)
	out := h.Alloc(8 * 32)
	h.Check(h.Launch("ops_clock", driver.Shape{Block: driver.Dim{X: 32}}, new(driver.Params).Ptr(out)))
	for i, v := range h.Download(out, 64) {
		if want := uint32(1 - i%2); v != want {
			t.Errorf("thread %d: %d, want %d", i/2, v, want)
		}
	}
}
