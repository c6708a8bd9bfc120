// Arithmetic modulo p = 2^255 - 19. Values are not unique: a type says how large they may be.
//
//   Loose   below 2^256: what products and squares take
//   Tight   below 2^255 + 2^11: what they give, and what sums and differences take
//
// Every Tight value is a Loose one. Nothing here branches or addresses by a value.
#pragma once
#include "divsteps.cuh"
#include "uint256.cuh"

namespace curve25519 {

using lanes::select;
using uint256::words;

struct Loose {
    uint32_t w[words];
};
struct Tight : Loose {};

// 2^255 = fold and so 2^256 = 2 * fold modulo p.
constexpr uint32_t fold = 19;
constexpr uint32_t below_255 = 0x7fffffffu;   // mask of the top word that leaves 2^255 - 1
static __constant__ constexpr divsteps::Modulus modulus = divsteps::modulus({~0u - (fold - 1), ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, below_255});

// constant gives a small number.
__device__ __forceinline__ Tight constant(uint32_t x) {
    Tight r;
    r.w[0] = x;
#pragma unroll
    for (int i = 1; i < words; i++) r.w[i] = 0;
    return r;
}

// fold_top adds q * 2^255 = q * 19 to t, whose bits from 255 up are not looked at. t + 19q stays below 2^255 + 19q.
__device__ __forceinline__ void fold_top(const uint32_t *t, uint32_t q, uint32_t *r) {
    r[0] = add_cc(t[0], q * fold);
#pragma unroll
    for (int i = 1; i < words - 1; i++) r[i] = addc_cc(t[i], 0);
    r[words - 1] = addc(t[words - 1] & below_255, 0);
}

// multiply_add gives low + factor * high for a factor below 2^17, both numbers below 2^256: less than
// (factor + 1) 2^256, so the part from bit 255 up is at most q = 2 factor + 1 and the result below 2^255 + 19q.
__device__ __forceinline__ void multiply_add(const uint32_t *low, uint32_t factor, const uint32_t *high, uint32_t *r) {
    uint32_t odd[words], t[words + 1];
#pragma unroll
    for (int i = 0; i < words; i += 2) uint256::wide(factor, high[i + 1], odd[i], odd[i + 1]);
#pragma unroll
    for (int i = 0; i < words; i += 2) {
        t[i] = i == 0 ? mad_lo_cc(factor, high[i], low[i]) : madc_lo_cc(factor, high[i], low[i]);
        t[i + 1] = madc_hi_cc(factor, high[i], low[i + 1]);
    }
    t[words] = addc(odd[words - 1], 0);
    t[1] = add_cc(t[1], odd[0]);
#pragma unroll
    for (int i = 2; i < words; i++) t[i] = addc_cc(t[i], odd[i - 1]);
    t[words] = addc(t[words], 0);
    fold_top(t, __funnelshift_l(t[words - 1], t[words], 1), r);
}

// reduce gives a 512-bit product modulo p: low + 38 high, below 2^255 + 19 * 77 < 2^255 + 2^11.
__device__ __forceinline__ Tight reduce(const uint32_t *product) {
    Tight r;
    multiply_add(product, 2 * fold, product + words, r.w);
    return r;
}

__device__ __forceinline__ Tight operator*(const Loose &a, const Loose &b) {
    uint32_t product[2 * words];
    uint256::schoolbook<words>(a.w, b.w, product);
    return reduce(product);
}

__device__ __forceinline__ Tight square(const Loose &a) {
    uint32_t product[2 * words];
    uint256::square(a.w, product);
    return reduce(product);
}

// times_121666_plus gives 121666 a + b, the constant being (A + 2)/4 for the curve's A = 486662. It is below 2^255 + 2^23.
constexpr uint32_t quarter_a_plus_2 = (486662 + 2) / 4;
__device__ __forceinline__ Loose times_121666_plus(const Loose &a, const Loose &b) {
    Loose r;
    multiply_add(b.w, quarter_a_plus_2, a.w, r.w);
    return r;
}

// The sum is below 2^256 + 2^12. If it wraps, less than 2^12 is left, so that adding the 38 for 2^256 carries nowhere.
__device__ __forceinline__ Loose operator+(const Tight &a, const Tight &b) {
    Loose r;
    r.w[0] = add_cc(a.w[0], b.w[0]);
#pragma unroll
    for (int i = 1; i < words; i++) r.w[i] = addc_cc(a.w[i], b.w[i]);
    r.w[0] += addc(0, 0) * (2 * fold);
    return r;
}

// The difference is above -2^255 - 2^11. If it wraps, it is above 2^254 then, so that taking off the 38 for 2^256 does not
// wrap again.
__device__ __forceinline__ Loose operator-(const Tight &a, const Tight &b) {
    Loose r;
    r.w[0] = sub_cc(a.w[0], b.w[0]);
#pragma unroll
    for (int i = 1; i < words; i++) r.w[i] = subc_cc(a.w[i], b.w[i]);
    const uint32_t borrow = subc(0, 0) & (2 * fold);
    r.w[0] = sub_cc(r.w[0], borrow);
#pragma unroll
    for (int i = 1; i < words - 1; i++) r.w[i] = subc_cc(r.w[i], 0);
    r.w[words - 1] = subc(r.w[words - 1], 0);
    return r;
}

// add_or_subtract gives a + b, or a - b for a mask of all ones, with the bounds of both. a - b is a + (b XOR -1) + 1 - 2^256.
__device__ __forceinline__ Loose add_or_subtract(const Tight &a, const Tight &b, uint32_t subtract) {
    Loose r;
    add_cc(subtract, subtract);   // carry = 1 to subtract
#pragma unroll
    for (int i = 0; i < words; i++) r.w[i] = addc_cc(a.w[i], b.w[i] ^ subtract);
    const uint32_t wraps = addc(0, subtract);   // 1: a sum wrapped; -1: a difference did; else 0
    const uint32_t sign = static_cast<uint32_t>(static_cast<int32_t>(wraps) >> 31);
    r.w[0] = add_cc(r.w[0], wraps * (2 * fold));
#pragma unroll
    for (int i = 1; i < words - 1; i++) r.w[i] = addc_cc(r.w[i], sign);
    r.w[words - 1] = addc(r.w[words - 1], sign);
    return r;
}

// tighten gives a value below 2^255 + 19.
__device__ __forceinline__ Tight tighten(const Loose &a) {
    Tight r;
    fold_top(a.w, a.w[words - 1] >> 31, r.w);
    return r;
}

// canonical gives the value in [0, p). a is below 2p, and a + 19 reaches 2^255 exactly if a >= p.
__device__ __forceinline__ Tight canonical(const Tight &a) {
    uint32_t t[words];
    t[0] = add_cc(a.w[0], fold);
#pragma unroll
    for (int i = 1; i < words - 1; i++) t[i] = addc_cc(a.w[i], 0);
    t[words - 1] = addc(a.w[words - 1], 0);
    const uint32_t over = t[words - 1] >> 31;
    Tight r;   // a + 19 - 2^255 or a
    r.w[0] = add_cc(a.w[0], over * fold);
#pragma unroll
    for (int i = 1; i < words - 1; i++) r.w[i] = addc_cc(a.w[i], 0);
    r.w[words - 1] = addc(a.w[words - 1], 0) & below_255;
    return r;
}

// invert gives 1/a in [0, p), and 0 for 0. invert_by_four does so on four neighbouring lanes that share a, in less time.
__device__ __forceinline__ Tight invert(const Tight &a) {
    Tight r;
    divsteps::invert(canonical(a).w, modulus, r.w);
    return r;
}
__device__ __forceinline__ Tight invert_by_four(const Tight &a, int lane) {
    Tight r;
    divsteps::invert_by_four(canonical(a).w, modulus, lane, r.w);
    return r;
}

// load reads a u-coordinate as RFC 7748, section 5 does: the top bit is ignored, values from p to 2^255 - 1 are taken as they
// are and stand for themselves less p.
__device__ __forceinline__ Tight load(const uint8_t *p) {
    Tight r;
    uint256::load(p, r.w);
    r.w[words - 1] &= below_255;
    return r;
}

// clamp does to word i of a private key what RFC 7748, section 5 says: the number becomes a multiple of 8 whose highest bit is 254.
__device__ __forceinline__ void clamp(int i, uint32_t &word) {
    if (i == 0) word &= ~7u;
    if (i == words - 1) word = (word & below_255) | 1u << 30;
}

// load_scalar reads a private key and clamps it.
__device__ __forceinline__ void load_scalar(const uint8_t *p, uint32_t (&k)[words]) {
    uint256::load(p, k);
#pragma unroll
    for (int i = 0; i < words; i++) clamp(i, k[i]);
}

}   // namespace curve25519
