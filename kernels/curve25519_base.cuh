// X25519 of the base point (u = 9): the public key of a private one. The sum is made on edwards25519, the twisted Edwards
// curve -x^2 + y^2 = 1 + d x^2 y^2 that is birationally equivalent (RFC 7748, section 4.1), by a comb of multiples of its base
// point B, and u = (1 + y)/(1 - y) of the result.
//
// The result is never the neutral element, whose u does not exist: a clamped key is a multiple of 8 below 2^255, and so no
// multiple of B's order l, as 8 l > 2^255.
#pragma once
#include "comb.cuh"
#include "curve25519_batch.cuh"
#include "curve25519_table.cuh"

namespace curve25519 {

// Extended is the point (X/Z, Y/Z), with T = XY/Z.
struct Extended {
    Tight x, y, z, t;
};
// Niels is an affine point as the table has it: (y + x)/2, (y - x)/2 and d x y, all below p.
struct Niels {
    Tight plus, minus, product;
};
constexpr int niels_words = 3 * words;

__device__ __forceinline__ Extended select(const Extended &a, const Extended &b, uint32_t mask) {
    return {select(a.x, b.x, mask), select(a.y, b.y, mask), select(a.z, b.z, mask), select(a.t, b.t, mask)};
}

// exchange_if gives -a for a mask of all ones, but for the sign of the product, which its user turns.
__device__ __forceinline__ Niels exchange_if(const Niels &a, uint32_t negate) {
    return {select(a.plus, a.minus, negate), select(a.minus, a.plus, negate), a.product};
}

// add gives a + b, or a - b for a mask of all ones: madd-2008-hwcd-3 of the Explicit-Formulas Database with everything halved.
// The addition is complete, as -1 is a square modulo p and d is not: no point is a special case.
__device__ __forceinline__ Extended add(const Extended &a, const Niels &b, uint32_t negate) {
    const Niels n = exchange_if(b, negate);
    const Tight low = (a.y - a.x) * n.minus, high = (a.y + a.x) * n.plus, c = a.t * n.product;
    const Loose e = high - low, h = high + low;
    const Loose f = add_or_subtract(a.z, c, ~negate), g = add_or_subtract(a.z, c, negate);
    return {e * f, g * h, f * g, e * h};
}

// add of two extended points: add-2008-hwcd-3, complete too.
__device__ __forceinline__ Extended add(const Extended &a, const Extended &b) {
    const Tight low = (a.y - a.x) * (b.y - b.x), high = (a.y + a.x) * (b.y + b.x);
    const Tight c = a.t * twice_d * b.t, zz = a.z * b.z, d = tighten(zz + zz);
    const Loose e = high - low, h = high + low, f = d - c, g = d + c;
    return {e * f, g * h, f * g, e * h};
}

// extend gives a, or -a for a mask of all ones.
__device__ __forceinline__ Extended extend(const Niels &a, uint32_t negate) {
    const Niels n = exchange_if(a, negate);
    const Tight x = tighten(n.plus - n.minus), y = tighten(n.plus + n.minus);
    return {x, y, constant(1), x * y};
}

// load_digits reads a private key and leaves its digits in the calling thread's column. k is clamped, so even, and below
// 2^255: k + l is odd and multiplies B alike, and (k + l - 1)/2 is below 2^255.
template <int threads> __device__ __forceinline__ void load_digits(const uint8_t *p, lanes::Columns<comb::digit_words, threads> &columns, int thread) {
    uint32_t k[words], digits[comb::digit_words];
    load_scalar(p, k);
    k[0] = add_cc(k[0], order_minus_1[0]);
#pragma unroll
    for (int i = 1; i < words - 1; i++) k[i] = addc_cc(k[i], order_minus_1[i]);
    k[words - 1] = addc(k[words - 1], order_minus_1[words - 1]);
#pragma unroll
    for (int i = 0; i < words; i++) k[i] = __funnelshift_r(k[i], i == words - 1 ? 0 : k[i + 1], 1);
    comb::recode(k, digits);
    lanes::put(columns, thread, digits);
}

// find looks entry j of a window up, for all lanes of the warp.
__device__ __forceinline__ Niels find(int window, int lane, uint32_t j) {
    uint32_t entry[niels_words];
    comb::lookup(table, window, lane, j, entry);
    Niels r;
#pragma unroll
    for (int i = 0; i < words; i++) r.plus.w[i] = entry[i], r.minus.w[i] = entry[words + i], r.product.w[i] = entry[2 * words + i];
    return r;
}

// ---- One operation a thread ----

// base_thread works on operation `block` * threads + the thread's number.
template <int threads> __device__ __forceinline__ void base_thread(const Batch &batch, int block) {
    SHARED(uint32_t, columns, [comb::digit_words][threads]);
    const int thread = static_cast<int>(threadIdx.x), i = block * threads + thread;
    load_digits(batch.input(i), columns, thread);
    Extended sum;
#pragma unroll 1
    for (int w = 0; w < comb::windows; w++) {
        const comb::Digit digit = comb::digit(columns, thread, w);
        const Niels point = find(w, thread % lanes::warp_size, digit.entry);
        sum = w == 0 ? extend(point, digit.negative) : add(sum, point, digit.negative);
    }
    const Loose numerator = sum.z + sum.y;
    const Tight denominator = tighten(sum.z - sum.y);
    __syncthreads();   // the digits have been read
    const Tight u = canonical(numerator * block_invert(denominator, columns, thread));
    lanes::wipe(columns, thread);
    if (i < batch.n) uint256::store(batch.output(i), u.w);
}

// ---- Four lanes an operation, each of them every fourth window ----

// base_lanes4 works on the eight operations from 8 * block. A block is one warp.
__device__ __forceinline__ void base_lanes4(const Batch &batch, int block) {
    SHARED(uint32_t, columns, [comb::digit_words][lanes::warp_size]);
    constexpr int roles = 4;
    const int lane = static_cast<int>(threadIdx.x), role = lane % roles, i = block * (lanes::warp_size / roles) + lane / roles;
    load_digits(batch.input(i), columns, lane);
    Extended sum;
#pragma unroll 1
    for (int w = 0; w < comb::windows; w += roles) {
        const comb::Digit digit = comb::digit(columns, lane, min(w + role, comb::windows - 1));
        Niels point = {constant(0), constant(0), constant(0)};
#pragma unroll 1
        for (int k = 0; k < roles; k++) {   // all lanes look all windows up, and keep their own
            const Niels found = find(min(w + k, comb::windows - 1), lane, digit.entry);
            const uint32_t own = lanes::mask_if(k == role);
            point = {select(point.plus, found.plus, own), select(point.minus, found.minus, own), select(point.product, found.product, own)};
        }
        if (w == 0) sum = extend(point, digit.negative);
        else sum = select(add(sum, point, digit.negative), sum, lanes::mask_if(w + role >= comb::windows));   // no window is left for some
    }
    lanes::wipe(columns, lane);
#pragma unroll 1
    for (int distance = 1; distance < roles; distance *= 2) {
        const int from = lane ^ distance;
        sum = add(sum, {shuffle(sum.x, from), shuffle(sum.y, from), shuffle(sum.z, from), shuffle(sum.t, from)});
    }
    const Tight u = canonical((sum.z + sum.y) * invert_by_four(tighten(sum.z - sum.y), lane));
    if (i < batch.n && role == 0) uint256::store(batch.output(i), u.w);
}

}   // namespace curve25519
