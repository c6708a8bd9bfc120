// Multiples of a fixed point: signed odd digits of a secret number, and a constant-time lookup in a table.
//
// An odd number k < 2^266 is 38 digits of 7 bits, each odd and of either sign. With K = (k - 1)/2 + 2^265, whose 7-bit windows
// are e_0, e_1, ..., the digits are 2 e_i - 127: they add up to 2 K - (128^38 - 1) = k. A digit's magnitude is 2 j + 1 with
// j = e_i - 64, or 63 - e_i if the digit is negative: 64 entries a window, two for each lane of a warp.
//
// For a lookup each lane loads its entries of a window, at public addresses, and all 32 shuffle twice. The secret j reaches the
// shuffle network, which takes the same time for every pattern of sources, and a mask.
#pragma once
#include "lanes.cuh"

namespace comb {

constexpr int window_bits = 7, windows = 38, entries = 1 << (window_bits - 1), halves = entries / lanes::warp_size;
static_assert(halves == 2, "two entries a lane");

// A recoded number is windows * window_bits = 266 bits.
constexpr int digit_words = 9;

// recode gives K from (k - 1)/2, below 2^256.
__device__ __forceinline__ void recode(const uint32_t (&half)[8], uint32_t (&digits)[digit_words]) {
#pragma unroll
    for (int i = 0; i < 8; i++) digits[i] = half[i];
    digits[8] = 1u << (windows * window_bits - 1 - 256);
}

struct Digit {
    uint32_t entry, negative;   // j, and all ones if the digit is negative
};

// digit reads digit `window` of the number in a column of shared memory.
template <int threads>
__device__ __forceinline__ Digit digit(const lanes::Columns<digit_words, threads> &digits, int thread, int window) {
    const int bit = window_bits * window, word = bit / 32;
    const uint32_t e = __funnelshift_r(digits[word][thread], digits[min(word + 1, digit_words - 1)][thread], bit % 32) % (1u << window_bits);
    const uint32_t negative = e / entries - 1;   // e / entries is 0 or 1
    return {(e ^ negative) % entries, negative};
}

// A table is rows of four words of each of 32 entries: table[window][half][row][entry % 32][4]. A warp loads a row at once.
// lookup gives the n words of entry j of a window to the calling lane; all lanes of the warp ask for the same window.
template <int n> __device__ __forceinline__ void lookup(const uint32_t *table, int window, int lane, uint32_t j, uint32_t (&r)[n]) {
    static_assert(n % 4 == 0, "whole rows");
    const uint4 *from = reinterpret_cast<const uint4 *>(table) + window * (n / 4 * entries) + lane;
    const int source = static_cast<int>(j % lanes::warp_size);
    const uint32_t upper = 0u - j / lanes::warp_size;
#pragma unroll
    for (int i = 0; i < n / 4; i++) {
        const uint4 a = __ldg(from + i * lanes::warp_size), b = __ldg(from + (n / 4 + i) * lanes::warp_size);
        const uint32_t low[4] = {a.x, a.y, a.z, a.w}, high[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int k = 0; k < 4; k++)
            r[4 * i + k] = lanes::choose(__shfl_sync(lanes::all, low[k], source), __shfl_sync(lanes::all, high[k], source), upper);
    }
}

}   // namespace comb
