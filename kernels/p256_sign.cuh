// ECDSA signatures on P-256 (FIPS 186-5, section 6.4.1) with nonces from the host: r = x(k G) mod n, s = (z + r d)/k mod n.
//
//   in          nonce k || digest z    32 big-endian bytes each, one row an operation; k is taken modulo n
//   key         d                      32 big-endian bytes
//   signatures  r || s                 32 big-endian bytes each, not to be given away before p256_check.cuh has seen them
//
// r or s may be zero: then another nonce is needed. The caller wipes the nonces. d and k reach masks, products and the shuffle
// network only. Shared memory that held secrets is cleared before a block ends.
#pragma once
#include "batch_inverse.cuh"
#include "p256_point.cuh"

namespace p256 {

constexpr int number_bytes = 32, row_bytes = 2 * number_bytes;

struct Signing {
    const uint8_t *in;
    uint32_t in_stride;
    const uint8_t *key;
    uint8_t *signatures;   // row_bytes apart
    int n;

    // input gives row i, or the last one for the threads beyond it, which work along and store nothing.
    __device__ __forceinline__ const uint8_t *input(int i) const { return in + static_cast<size_t>(min(i, n - 1)) * in_stride; }
};

__device__ __forceinline__ Scalar load_scalar(const uint8_t *p) {
    uint32_t w[words];
    load_big_endian(p, w);
    return modulo_n_of(w);
}

// finish makes and stores the signature, given X and 1/ZZ of k G and R/k.
__device__ __forceinline__ void finish(const Signing &signing, int i, const Element &x, const Element &zz_inverse, const Scalar &k_inverse) {
    const Scalar r = modulo_n_of(to_number(x * zz_inverse).w);   // p < 2n
    const Scalar z = load_scalar(signing.input(i) + number_bytes), d = times_r(load_scalar(signing.key));
    const Scalar s = (z + r * d) * k_inverse;
    if (i < signing.n) {
        uint8_t *row = signing.signatures + static_cast<size_t>(i) * row_bytes;
        store_big_endian(row, r.w);
        store_big_endian(row + number_bytes, s.w);
    }
}

// ---- One operation a thread ----

// sign_thread works on operation `block` * threads + the thread's number. threads >= 64.
template <int threads> __device__ __forceinline__ void sign_thread(const Signing &signing, int block) {
    SHARED(uint32_t, columns, [comb::digit_words][threads]);
    SHARED(uint32_t, nonces, [words][threads]);
    SHARED(uint32_t, numerators, [words][threads]);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes::warp_size, i = block * threads + thread;
    uint32_t negated;
    {
        const Scalar k = load_scalar(signing.input(i));
        negated = put_digits(k, columns, thread);
        // Zero would spoil the inverses of the others, so one is inverted for it. k G is infinity then, and r zero.
        const uint32_t k_is_zero = uint256::mask_of_zero(uint256::nonzero(k.w));
        lanes::put(nonces, thread, times_r(select(k, one_scalar(), k_is_zero)).w);
    }
    uint32_t infinite;
    {
        const Point sum = sum_windows(table, columns, thread, negated);
        infinite = is_zero(sum.zz);
        lanes::put(numerators, thread, sum.x.w);
        __syncthreads();   // the digits have been read
        lanes::put(columns, thread, select(sum.zz, one(), infinite).w);
    }
    __syncthreads();
    if (thread < lanes::warp_size) batch_inverse::invert_columns<Element>(columns, lane);
    else if (thread < 2 * lanes::warp_size) batch_inverse::invert_columns<Scalar>(nonces, lane);
    __syncthreads();
    Element x, zz_inverse;
    Scalar k_inverse;
    lanes::get(numerators, thread, x.w);
    lanes::get(columns, thread, zz_inverse.w);
    lanes::get(nonces, thread, k_inverse.w);
    lanes::wipe(numerators, thread);
    lanes::wipe(columns, thread);
    lanes::wipe(nonces, thread);
    finish(signing, i, x, select(zz_inverse, zero(), infinite), k_inverse);
}

// ---- Eight lanes an operation ----

// sign_lanes8 works on the four operations from 4 * block. A block is one warp.
__device__ __forceinline__ void sign_lanes8(const Signing &signing, int block) {
    SHARED(uint32_t, columns, [comb::digit_words][lanes::warp_size]);
    constexpr int roles = shares;
    const int lane = static_cast<int>(threadIdx.x), role = lane % roles, i = block * (lanes::warp_size / roles) + lane / roles;
    const Scalar k = load_scalar(signing.input(i));
    const uint32_t negated = put_digits(k, columns, lane);
    const Point share = sum_share<roles>(columns, lane, negated, [](int) { return table; });
    lanes::wipe(columns, lane);
    const Point sum = sum_shares<roles>(share, lane);
    // Two inversions at once: the first four lanes do that of ZZ modulo p, the others that of k R modulo n.
    const bool for_nonce = role >= 4;
    const Scalar k_times_r = times_r(k);
    uint32_t value[words], inverse[words], other[words];
    divsteps::Modulus m;
    m.inverse = for_nonce ? order.inverse : modulus.inverse;
#pragma unroll
    for (int j = 0; j < divsteps::limbs; j++) m.value.limb[j] = for_nonce ? order.value.limb[j] : modulus.value.limb[j];
#pragma unroll
    for (int j = 0; j < words; j++) value[j] = for_nonce ? k_times_r.w[j] : sum.zz.w[j];
    divsteps::invert_by_four(value, m, lane, inverse);
#pragma unroll
    for (int j = 0; j < words; j++) other[j] = __shfl_xor_sync(lanes::all, inverse[j], 4);
    if (role == 0) finish(signing, i, sum.x, from_inverse(inverse), inverse_times_r(other));
}

}   // namespace p256
