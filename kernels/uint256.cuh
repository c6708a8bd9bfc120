// Integers of 256 bits as eight 32-bit words, least significant first: products, squares, rows in memory. The words are
// saturated, so that a product is 64 multiplications of 32 x 32 bits and no more; carries run through the condition code.
// (Karatsuba's method takes 48, but its additions cost more than it saves: docs/performance/curves-2026-11-30.md.)
//
// A pair mad.lo.cc, madc.hi.cc of the same factors is one instruction on the machine (IMAD.WIDE, with carry in and out), if
// its two sum words are an even and an odd register. So products are summed in two accumulators: `even` for those of
// even weight, `odd`, one word up, for the others. Each row of either is one carry chain.
#pragma once
#include "device/device.h"

namespace uint256 {

constexpr int words = 8;

// wide gives both words of a * b.
__device__ __forceinline__ void wide(uint32_t a, uint32_t b, uint32_t &low, uint32_t &high) {
    const uint64_t product = static_cast<uint64_t>(a) * b;
    low = static_cast<uint32_t>(product);
    high = static_cast<uint32_t>(product >> 32);
}

// add_row adds a * b[0], a * b[2], ..., `products` of them, two words each, at sum[0], sum[2], ... With top set the last of
// these words is not filled yet, and if fresh the one before it neither: nothing is carried out, since what is summed fits.
// Else the word behind the last is set to the carry.
__device__ __forceinline__ void add_row(uint32_t *sum, uint32_t a, const uint32_t *b, int products, bool top, bool fresh) {
#pragma unroll
    for (int k = 0; k < 2 * products; k += 2) {
        const bool last = k == 2 * products - 2;
        const uint32_t low = last && fresh ? 0 : sum[k];
        sum[k] = k == 0 ? mad_lo_cc(a, b[k], low) : madc_lo_cc(a, b[k], low);
        sum[k + 1] = last && top ? madc_hi(a, b[k], 0) : madc_hi_cc(a, b[k], sum[k + 1]);
    }
    if (!top) sum[2 * products] = addc(0, 0);
}

// schoolbook gives the 2n words of a * b for an even n.
template <int n> __device__ __forceinline__ void schoolbook(const uint32_t *a, const uint32_t *b, uint32_t *product) {
    uint32_t even[2 * n], odd[2 * n];
#pragma unroll
    for (int j = 0; j < n; j += 2) {
        wide(a[0], b[j], even[j], even[j + 1]);
        wide(a[0], b[j + 1], odd[j], odd[j + 1]);
    }
#pragma unroll
    for (int i = 1; i < n; i++) {
        if (i % 2 != 0) {
            add_row(odd + i - 1, a[i], b, n / 2, false, false);
            add_row(even + i + 1, a[i], b + 1, n / 2, true, i == 1);
        } else {
            add_row(even + i, a[i], b, n / 2, false, false);
            add_row(odd + i, a[i], b + 1, n / 2, true, false);
        }
    }
    product[0] = even[0];
    product[1] = add_cc(even[1], odd[0]);
#pragma unroll
    for (int k = 2; k < 2 * n - 1; k++) product[k] = addc_cc(even[k], odd[k - 1]);
    product[2 * n - 1] = addc(even[2 * n - 1], odd[2 * n - 2]);
}

// square gives the 16 words of a * a: the 28 products of different words once, doubled by shifts, and the 8 squares.
__device__ __forceinline__ void square(const uint32_t *a, uint32_t *product) {
    constexpr int n = words;
    uint32_t even[2 * n], odd[2 * n], twice[2 * n];
#pragma unroll
    for (int j = 1; j < n; j++) {
        if (j % 2 != 0) wide(a[0], a[j], odd[j - 1], odd[j]);
        else wide(a[0], a[j], even[j], even[j + 1]);
    }
#pragma unroll
    for (int i = 1; i < n - 1; i++) {   // a[i] times a[i + 1], a[i + 3], ... and times a[i + 2], a[i + 4], ...
        const bool top = i % 2 == 0;    // whether the first of these reach a[n - 1]; the others do if not
        add_row(odd + 2 * i, a[i], a + i + 1, (n - i) / 2, top, false);
        if (i < n - 2) add_row(even + 2 * i + 2, a[i], a + i + 2, (n - 1 - i) / 2, !top, i == 1);
    }
    // even[2 .. 13] + odd[0 .. 13] one word up, in words 1 .. 14 of `twice`
    twice[1] = odd[0];
    twice[2] = add_cc(even[2], odd[1]);
#pragma unroll
    for (int k = 3; k < 2 * n - 2; k++) twice[k] = addc_cc(even[k], odd[k - 1]);
    twice[2 * n - 2] = addc(odd[2 * n - 3], 0);
    twice[2 * n - 1] = twice[2 * n - 2] >> 31;
#pragma unroll
    for (int k = 2 * n - 2; k > 1; k--) twice[k] = __funnelshift_l(twice[k - 1], twice[k], 1);
    twice[1] <<= 1;
    twice[0] = 0;
#pragma unroll
    for (int i = 0; i < n; i++) {
        product[2 * i] = i == 0 ? mad_lo_cc(a[i], a[i], twice[2 * i]) : madc_lo_cc(a[i], a[i], twice[2 * i]);
        product[2 * i + 1] = i == n - 1 ? madc_hi(a[i], a[i], twice[2 * i + 1]) : madc_hi_cc(a[i], a[i], twice[2 * i + 1]);
    }
}

// load and store move the 32 bytes at p, aligned to 16.
__device__ __forceinline__ void load(const uint8_t *p, uint32_t (&r)[words]) {
    const uint4 *from = reinterpret_cast<const uint4 *>(p);
    const uint4 low = from[0], high = from[1];
    r[0] = low.x, r[1] = low.y, r[2] = low.z, r[3] = low.w;
    r[4] = high.x, r[5] = high.y, r[6] = high.z, r[7] = high.w;
}
__device__ __forceinline__ void store(uint8_t *p, const uint32_t (&a)[words]) {
    uint4 *to = reinterpret_cast<uint4 *>(p);
    to[0] = make_uint4(a[0], a[1], a[2], a[3]);
    to[1] = make_uint4(a[4], a[5], a[6], a[7]);
}

// nonzero gives some word that is zero exactly if a is.
__device__ __forceinline__ uint32_t nonzero(const uint32_t (&a)[words]) {
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < words; i++) any |= a[i];
    return any;
}

// mask_of_zero is all ones if x is zero, else zero.
__device__ __forceinline__ uint32_t mask_of_zero(uint32_t x) {
    return static_cast<uint32_t>(static_cast<int32_t>(~x & (x - 1)) >> 31);
}

}   // namespace uint256
