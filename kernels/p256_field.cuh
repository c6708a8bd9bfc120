// Arithmetic modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, the field of NIST P-256. A number x is held as x R mod p with R = 2^256
// (Montgomery's form), always in [0, p). Nothing here branches or addresses by a value.
#pragma once
#include "divsteps.cuh"
#include "p256_table.cuh"
#include "uint256.cuh"

namespace p256 {

using lanes::select;
using uint256::words;

struct Element {
    uint32_t w[words];
};

static __constant__ constexpr divsteps::Modulus modulus = divsteps::modulus(modulo_p::p);

// p's words are all ones, 0 or 1: p_word gives one of them, or zero, for a mask.
__device__ __forceinline__ uint32_t p_word(int i, uint32_t mask) {
    return i == 6 ? mask & 1 : i < 3 || i == 7 ? mask : 0;
}

// subtract_once gives t mod m for t = carry 2^256 + t below 2m, m being the modulus whose words word(i) gives.
template <class Word> __device__ __forceinline__ void subtract_once(const uint32_t *t, uint32_t carry, Word word, uint32_t *r) {
    uint32_t less[words];
    less[0] = sub_cc(t[0], word(0));
#pragma unroll
    for (int i = 1; i < words; i++) less[i] = subc_cc(t[i], word(i));
    const uint32_t below = subc(carry, 0);   // all ones if t < m: carry is 0 then and there was a borrow
#pragma unroll
    for (int i = 0; i < words; i++) r[i] = lanes::choose(less[i], t[i], below);
}

// reduce gives t / R modulo p for t below p R. Let M be the multiple of p that makes t + M p divisible by R. As
//   M p = M 2^256 - M 2^224 + M 2^192 + M 2^96 - M,
// the low half gives M = t + M 2^96 + M 2^192 - M 2^224 modulo 2^256, word by word from the lowest, and
//   (t + M p) / 2^256 = t / 2^256 + M - M / 2^32 + M / 2^64 + M / 2^160
// with what the low half carries: a few additions of shifted words in place of multiplications. It is below 2p.
__device__ __forceinline__ Element reduce(uint32_t *t) {
    // M 2^192 - M 2^224 in the low half: word 6 gets M's word 0, word 7 word 1 less word 0; those of M are t's there.
    t[6] = add_cc(t[6], t[0]);
    t[7] = addc_cc(t[7], t[1]);
    const uint32_t carried = addc(0, 0);
    t[7] = sub_cc(t[7], t[0]);
    const uint32_t borrowed = subc(0, 0);
    // + M 2^96, which turns words 3 to 7 into those of M, and goes on into the high half.
    t[3] = add_cc(t[3], t[0]);
#pragma unroll
    for (int i = 4; i < words + 3; i++) t[i] = addc_cc(t[i], t[i - 3]);
#pragma unroll
    for (int i = words + 3; i < 2 * words; i++) t[i] = addc_cc(t[i], 0);
    uint32_t high = addc(0, 0);
    // The high half of M 2^192, with what the low one carried.
    add_cc(carried, ~0u);
#pragma unroll
    for (int i = 0; i < words; i++) t[words + i] = addc_cc(t[words + i], i < words - 2 ? t[i + 2] : 0);
    high = addc(high, 0);
    // M 2^256
    t[words] = add_cc(t[words], t[0]);
#pragma unroll
    for (int i = 1; i < words; i++) t[words + i] = addc_cc(t[words + i], t[i]);
    high = addc(high, 0);
    // The high half of -M 2^224, with what the low one borrowed: 0 - (all ones) borrows too.
    sub_cc(0, borrowed);
#pragma unroll
    for (int i = 0; i < words; i++) t[words + i] = subc_cc(t[words + i], i < words - 1 ? t[i + 1] : 0);
    high = subc(high, 0);
    Element r;
    subtract_once(t + words, high, [](int i) { return p_word(i, ~0u); }, r.w);
    return r;
}

__device__ __forceinline__ Element operator*(const Element &a, const Element &b) {
    uint32_t product[2 * words];
    uint256::schoolbook<words>(a.w, b.w, product);
    return reduce(product);
}

__device__ __forceinline__ Element square(const Element &a) {
    uint32_t product[2 * words];
    uint256::square(a.w, product);
    return reduce(product);
}

__device__ __forceinline__ Element operator-(const Element &a, const Element &b) {
    Element r;
    r.w[0] = sub_cc(a.w[0], b.w[0]);
#pragma unroll
    for (int i = 1; i < words; i++) r.w[i] = subc_cc(a.w[i], b.w[i]);
    const uint32_t borrow = subc(0, 0);
    r.w[0] = add_cc(r.w[0], p_word(0, borrow));
#pragma unroll
    for (int i = 1; i < words - 1; i++) r.w[i] = addc_cc(r.w[i], p_word(i, borrow));
    r.w[words - 1] = addc(r.w[words - 1], p_word(words - 1, borrow));
    return r;
}

__device__ __forceinline__ Element operator+(const Element &a, const Element &b) {
    uint32_t sum[words];
    sum[0] = add_cc(a.w[0], b.w[0]);
#pragma unroll
    for (int i = 1; i < words; i++) sum[i] = addc_cc(a.w[i], b.w[i]);
    const uint32_t carry = addc(0, 0);
    Element r;
    subtract_once(sum, carry, [](int i) { return p_word(i, ~0u); }, r.w);
    return r;
}

// negate_if gives -a for a mask of all ones, for a that is not zero: (a XOR -1) + 1 + p.
__device__ __forceinline__ Element negate_if(const Element &a, uint32_t mask) {
    Element r;
    add_cc(mask, mask);
#pragma unroll
    for (int i = 0; i < words; i++) r.w[i] = addc_cc(a.w[i] ^ mask, p_word(i, mask));
    return r;
}

__device__ __forceinline__ Element constant(const uint32_t (&w)[words]) {
    Element r;
#pragma unroll
    for (int i = 0; i < words; i++) r.w[i] = w[i];
    return r;
}
__device__ __forceinline__ Element zero() { return {}; }
__device__ __forceinline__ Element one() { return constant(modulo_p::r); }

// is_zero gives all ones for zero, else zero.
__device__ __forceinline__ uint32_t is_zero(const Element &a) { return uint256::mask_of_zero(uint256::nonzero(a.w)); }

// from_number and to_number convert a number below p to its form and back.
__device__ __forceinline__ Element from_number(const uint32_t (&a)[words]) { return constant(a) * constant(modulo_p::r2); }
__device__ __forceinline__ Element to_number(const Element &a) {
    Element one = {};
    one.w[0] = 1;
    return a * one;
}

// from_inverse turns 1/(x R), which the division steps make of x's form, into 1/x's: times R^3, over R.
__device__ __forceinline__ Element from_inverse(const uint32_t (&a)[words]) { return constant(a) * constant(modulo_p::r3); }

// invert gives 1/a, and 0 for 0.
__device__ __forceinline__ Element invert(const Element &a) {
    uint32_t r[words];
    divsteps::invert(a.w, modulus, r);
    return from_inverse(r);
}

}   // namespace p256
