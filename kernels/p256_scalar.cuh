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

// multiply gives a b / R: t + M n is divisible by R = 2^256 for M = -t/n modulo R, and (t + M n) / R is below 2n.
static __device__ __noinline__ Scalar multiply(Scalar a, Scalar b) {
    uint32_t t[2 * words], m[2 * words], u[2 * words];
    uint256::schoolbook<words>(a.w, b.w, t);
    uint256::schoolbook<words>(t, modulo_n::negative_inverse, m);   // of which the low half is M
    uint256::schoolbook<words>(m, modulo_n::n, u);
    add_cc(t[0], u[0]);
#pragma unroll
    for (int i = 1; i < words; i++) addc_cc(t[i], u[i]);
#pragma unroll
    for (int i = words; i < 2 * words; i++) t[i] = addc_cc(t[i], u[i]);
    const uint32_t carry = addc(0, 0);
    Scalar r;
    subtract_once(t + words, carry, [](int i) { return modulo_n::n[i]; }, r.w);
    return r;
}
__device__ __forceinline__ Scalar operator*(const Scalar &a, const Scalar &b) { return multiply(a, b); }

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
