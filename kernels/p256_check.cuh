// The check of fresh signatures with the signer's own public key Q (FIPS 186-5, section 6.4.2), for which there is a comb table
// like the base point's: x(z/s G + r/s Q) = r modulo n. Until it is checked a signature is as secret as the key: one that
// a fault has spoilt may give the key away. So this kernel moves signatures from scratch memory to the output, those that are
// right, and clears the scratch.
//
//   in          nonce || digest z      as in p256_sign.cuh; of the digest only is use made
//   signatures  r || s                 from p256_sign.cuh; cleared
//   out         r || s, or zeros if the status is not 0
//   status      0, 1 if r or s is zero, so that another nonce is needed, or 2 if the signature is wrong
//
// The two products are summed apart and then added completely, so the verdict is always right, also for a digest of zero, whose
// product is infinity.
#pragma once
#include "p256_sign.cuh"

namespace p256 {

enum : uint32_t { status_right = 0, status_zero = 1, status_wrong = 2 };

struct Checking {
    Signing signing;
    const uint32_t *public_table;
    uint8_t *out;
    uint32_t out_stride;
    uint32_t *status;
};

struct Signature {
    uint32_t r[words], s[words];
};
__device__ __forceinline__ Signature load_signature(const Checking &checking, int i) {
    const uint8_t *row = checking.signing.signatures + static_cast<size_t>(min(i, checking.signing.n - 1)) * row_bytes;
    Signature r;
    load_big_endian(row, r.r);
    load_big_endian(row + number_bytes, r.s);
    return r;
}

// matches says, as a mask, whether the point is finite and its x is r modulo n: r, or r + n if that is below p.
__device__ __forceinline__ uint32_t matches(const Point &point, const uint32_t (&r)[words]) {
    uint32_t second[words];
    second[0] = add_cc(r[0], modulo_n::n[0]);
#pragma unroll
    for (int i = 1; i < words; i++) second[i] = addc_cc(r[i], modulo_n::n[i]);
    const uint32_t carry = addc(0, 0);
    sub_cc(second[0], p_word(0, ~0u));
#pragma unroll
    for (int i = 1; i < words; i++) subc_cc(second[i], p_word(i, ~0u));
    const uint32_t below_p = subc(carry, 0);   // all ones if there was no carry but a borrow
    const uint32_t is_r = is_zero(from_number(r) * point.zz - point.x), is_second = is_zero(from_number(second) * point.zz - point.x) & below_p;
    return (is_r | is_second) & ~is_zero(point.zz);
}

// finish stores the verdict, and the signature if it is right, and clears the scratch.
__device__ __forceinline__ void finish(const Checking &checking, int i, const Point &point) {
    const Signature signature = load_signature(checking, i);
    const uint32_t right = matches(point, signature.r);
    const uint32_t zero = uint256::mask_of_zero(uint256::nonzero(signature.r)) | uint256::mask_of_zero(uint256::nonzero(signature.s));
    if (i >= checking.signing.n) return;
    Signature released;
#pragma unroll
    for (int j = 0; j < words; j++) {
        released.r[j] = signature.r[j] & right & ~zero;
        released.s[j] = signature.s[j] & right & ~zero;
    }
    uint8_t *row = checking.out + static_cast<size_t>(i) * checking.out_stride;
    store_big_endian(row, released.r);
    store_big_endian(row + number_bytes, released.s);
    checking.status[i] = lanes::choose(lanes::choose(status_wrong, status_right, right), status_zero, zero);
    uint8_t *scratch = checking.signing.signatures + static_cast<size_t>(i) * row_bytes;
    const uint32_t none[words] = {};
    uint256::store(scratch, none);
    uint256::store(scratch + number_bytes, none);
}

// ---- One operation a thread ----

template <int threads> __device__ __forceinline__ void check_thread(const Checking &checking, int block) {
    SHARED(uint32_t, columns, [comb::digit_words][threads]);
    SHARED(uint32_t, base_digits, [comb::digit_words][threads]);
    SHARED(uint32_t, held, [point_words][threads]);
    const int thread = static_cast<int>(threadIdx.x), i = block * threads + thread;
    const Signature signature = load_signature(checking, i);
    // An s of zero, of which no signature comes, must not spoil the inverses of the others.
    const Scalar s = constant_scalar(signature.s);
    lanes::put(columns, thread, times_r(select(s, one_scalar(), uint256::mask_of_zero(uint256::nonzero(s.w)))).w);
    __syncthreads();
    if (thread < lanes::warp_size) batch_inverse::invert_columns<Scalar>(columns, thread);
    __syncthreads();
    Scalar s_inverse;   // times R
    lanes::get(columns, thread, s_inverse.w);
    const uint32_t r_negated = put_digits(constant_scalar(signature.r) * s_inverse, columns, thread);
    const uint32_t z_negated = put_digits(load_scalar(checking.signing.input(i) + number_bytes) * s_inverse, base_digits, thread);
    put_point(held, thread, sum_windows(checking.public_table, columns, thread, r_negated));
    const Point for_base = sum_windows(table, base_digits, thread, z_negated);
    const Point sum = add_complete(for_base, get_point(held, thread));
    lanes::wipe(columns, thread);
    lanes::wipe(base_digits, thread);
    lanes::wipe(held, thread);
    finish(checking, i, sum);
}

// ---- Sixteen lanes an operation: eight for Q, eight for the base point ----

// check_lanes16 works on the two operations from 2 * block. A block is one warp.
__device__ __forceinline__ void check_lanes16(const Checking &checking, int block) {
    SHARED(uint32_t, columns, [comb::digit_words][lanes::warp_size]);
    constexpr int roles = 2 * shares;
    const int lane = static_cast<int>(threadIdx.x), i = block * (lanes::warp_size / roles) + lane / roles;
    const bool for_base = lane % roles >= shares;
    const Signature signature = load_signature(checking, i);
    uint32_t inverse[words];
    divsteps::invert_by_four(times_r(constant_scalar(signature.s)).w, order, lane, inverse);
    const Scalar z = load_scalar(checking.signing.input(i) + number_bytes);
    const Scalar factor = select(constant_scalar(signature.r), z, lanes::mask_if(for_base)) * inverse_times_r(inverse);
    const uint32_t negated = put_digits(factor, columns, lane);
    const uint32_t *public_table = checking.public_table;
    const Point share = sum_share<roles>(columns, lane, negated, [public_table](int role) { return role < shares ? public_table : table; });
    lanes::wipe(columns, lane);
    const Point sum = sum_shares<roles>(share, lane);
    if (lane % roles == 0) finish(checking, i, sum);
}

}   // namespace p256
