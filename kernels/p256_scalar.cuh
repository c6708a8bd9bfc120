// Arithmetic modulo n, the order of P-256's group. Numbers are in [0, n); those that a comment calls "times R" are held as x R
// mod n with R = 2^256 (Montgomery's form). There are few products per signature, so these functions are calls, not inlined.
#pragma once
#include "p256_field.cuh"

namespace p256 {

static __constant__ constexpr divsteps::Modulus order = divsteps::modulus(modulo_n::n);

struct Scalar {
    uint32_t w[words];
};

// modulo_n_of gives a mod n for any 256-bit number, as 2^256 < 2n.
__device__ __forceinline__ Scalar modulo_n_of(const uint32_t (&a)[words]) {
    Scalar r;
    subtract_once(a, 0, [](int i) { return modulo_n::n[i]; }, r.w);
    return r;
}

__device__ __forceinline__ Scalar constant_scalar(const uint32_t (&w)[words]) {
    Scalar r;
#pragma unroll
    for (int i = 0; i < words; i++) r.w[i] = w[i];
    return r;
}

__device__ __forceinline__ Scalar one_scalar() {
    Scalar r = {};
    r.w[0] = 1;
    return r;
}

__device__ __forceinline__ Scalar operator+(const Scalar &a, const Scalar &b) {
    uint32_t sum[words];
    sum[0] = add_cc(a.w[0], b.w[0]);
#pragma unroll
    for (int i = 1; i < words; i++) sum[i] = addc_cc(a.w[i], b.w[i]);
    const uint32_t carry = addc(0, 0);
    Scalar r;
    subtract_once(sum, carry, [](int i) { return modulo_n::n[i]; }, r.w);
    return r;
}

// multiply gives a b / R. To t = a b it adds, from the lowest word up, the multiple of n that makes the word zero; what is left
// above is below 2n. The carry out of a round's ninth word is at most 1, as the sum so far is below twice that word's weight.
// It takes words since a structure would be passed in local memory, where secrets would be left behind.
static __device__ __noinline__ Scalar multiply(uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5, uint32_t a6, uint32_t a7,
                                               uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3, uint32_t b4, uint32_t b5, uint32_t b6, uint32_t b7) {
    const uint32_t a[words] = {a0, a1, a2, a3, a4, a5, a6, a7}, b[words] = {b0, b1, b2, b3, b4, b5, b6, b7};
    uint32_t t[2 * words], carry = 0;
    uint256::schoolbook<words>(a, b, t);
#pragma unroll
    for (int i = 0; i < words; i++) {
        const uint32_t m = t[i] * negative_inverse;
        mad_lo_cc(m, modulo_n::n[0], t[i]);   // zero, and a carry
#pragma unroll
        for (int j = 1; j < words; j++) t[i + j] = madc_lo_cc(m, modulo_n::n[j], t[i + j]);
        t[i + words] = addc_cc(t[i + words], carry);
        carry = addc(0, 0);
        t[i + 1] = mad_hi_cc(m, modulo_n::n[0], t[i + 1]);
#pragma unroll
        for (int j = 1; j < words; j++) t[i + j + 1] = madc_hi_cc(m, modulo_n::n[j], t[i + j + 1]);
        carry = addc(carry, 0);
    }
    Scalar r;
    subtract_once(t + words, carry, [](int i) { return modulo_n::n[i]; }, r.w);
    return r;
}
__device__ __forceinline__ Scalar operator*(const Scalar &a, const Scalar &b) {
    return multiply(a.w[0], a.w[1], a.w[2], a.w[3], a.w[4], a.w[5], a.w[6], a.w[7], b.w[0], b.w[1], b.w[2], b.w[3], b.w[4], b.w[5], b.w[6], b.w[7]);
}

// times_r gives a R.
__device__ __forceinline__ Scalar times_r(const Scalar &a) { return a * constant_scalar(modulo_n::r2); }

// inverse_times_r turns 1/(x R), which the division steps make of x R, into R/x.
__device__ __forceinline__ Scalar inverse_times_r(const uint32_t (&a)[words]) { return constant_scalar(a) * constant_scalar(modulo_n::r3); }

// invert gives R/x for x R, and 0 for 0.
__device__ __forceinline__ Scalar invert(const Scalar &a) {
    uint32_t r[words];
    divsteps::invert(a.w, order, r);
    return inverse_times_r(r);
}

// load and store convert 32 big-endian bytes, aligned to 16.
__device__ __forceinline__ void load_big_endian(const uint8_t *p, uint32_t (&r)[words]) {
    uint32_t w[words];
    uint256::load(p, w);
#pragma unroll
    for (int i = 0; i < words; i++) r[i] = __byte_perm(w[words - 1 - i], 0, 0x0123);
}
__device__ __forceinline__ void store_big_endian(uint8_t *p, const uint32_t (&a)[words]) {
    uint32_t w[words];
#pragma unroll
    for (int i = 0; i < words; i++) w[i] = __byte_perm(a[words - 1 - i], 0, 0x0123);
    uint256::store(p, w);
}

}   // namespace p256
