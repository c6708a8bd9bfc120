// Multiples of a fixed point: signed odd digits of a secret number, and a constant-time lookup in a table.
//
// An odd number k < 2^264 is 44 digits of 6 bits, each odd and of either sign. With K = (k - 1)/2 + 2^263, whose 6-bit windows
// are e_0, e_1, ..., the digits are 2 e_i - 63: they add up to 2 K - (64^44 - 1) = k. A digit's magnitude is 2 j + 1 with
// j = e_i - 32, or 31 - e_i if the digit is negative: 32 entries a window, one for each lane of a warp.
//
// For a lookup each lane loads its entry of a window, at a public address, and all 32 shuffle. The secret j reaches the shuffle
// network only, which takes the same time for every pattern of sources.
#pragma once
#include "lanes.cuh"

namespace comb {

constexpr int window_bits = 6, windows = 44, entries = 1 << (window_bits - 1);
static_assert(entries == lanes::warp_size, "an entry a lane");

// A recoded number is windows * window_bits = 264 bits.
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

// A table is rows of four words of each of a window's 32 entries: table[window][row][entry][4]. A warp loads a row at once.
// load gives the calling lane's entry of a window, `n` words.
template <int n> __device__ __forceinline__ void load(const uint32_t *table, int window, int lane, uint32_t (&entry)[n]) {
    static_assert(n % 4 == 0, "whole rows");
    const uint4 *from = reinterpret_cast<const uint4 *>(table) + window * (n / 4 * entries) + lane;
#pragma unroll
    for (int i = 0; i < n / 4; i++) {
        const uint4 four = __ldg(from + i * entries);
        entry[4 * i] = four.x, entry[4 * i + 1] = four.y, entry[4 * i + 2] = four.z, entry[4 * i + 3] = four.w;
    }
}

// pick gives words first .. first + 7 of entry j of the window whose entries the warp's lanes hold.
template <int n> __device__ __forceinline__ void pick(const uint32_t (&entry)[n], int first, uint32_t j, uint32_t (&r)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) r[i] = __shfl_sync(lanes::all, entry[first + i], static_cast<int>(j));
}

}   // namespace comb
