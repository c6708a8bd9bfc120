// Keccak-f[1600] (FIPS 202) in two shapes: a whole state in one thread's registers, for throughput (no exchange between
// lanes, all of the arithmetic units busy once 4 warps a scheduler are there), and a state spread over a warp's lanes,
// one word each, for latency (a round is 3 dependent exchanges instead of 180 instructions in a row).
#pragma once
#include "params.cuh"

namespace ctruprime {

constexpr int keccak_words = 25, keccak_rounds = 24;

// The iota constants, FIPS 202 algorithm 5. Read at public indices only.
__constant__ const uint64_t keccak_iota[keccak_rounds] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000, 0x000000000000808B, 0x0000000080000001,
    0x8000000080008081, 0x8000000000008009, 0x000000000000008A, 0x0000000000000088, 0x0000000080008009, 0x000000008000000A,
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080,
    0x000000000000800A, 0x800000008000000A, 0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

// keccak_rho[x + 5y] is the rotation of word (x, y), FIPS 202 table 2 modulo 64.
__constant__ const uint8_t keccak_rho[keccak_words] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                                       25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};

__device__ __forceinline__ uint32_t low_word(uint64_t x) { return static_cast<uint32_t>(x); }
__device__ __forceinline__ uint32_t high_word(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
__device__ __forceinline__ uint64_t make_word(uint32_t low, uint32_t high) { return static_cast<uint64_t>(high) << 32 | low; }

// rotate_left by a constant 0 <= r < 64: two funnel shifts, where a 64-bit shift would be emulated.
template <int r> __device__ __forceinline__ uint64_t rotate_left(uint64_t x) {
    const uint32_t low = low_word(x), high = high_word(x);
    if constexpr (r == 0) return x;
    else if constexpr (r < 32) return make_word(__funnelshift_l(high, low, r), __funnelshift_l(low, high, r));
    else return make_word(__funnelshift_l(low, high, r - 32), __funnelshift_l(high, low, r - 32));
}

// Three-input logic on both halves: one lop3 each.
__device__ __forceinline__ uint64_t xor3(uint64_t a, uint64_t b, uint64_t c) {
    return make_word(lop3<0x96>(low_word(a), low_word(b), low_word(c)), lop3<0x96>(high_word(a), high_word(b), high_word(c)));
}
// chi: a ^ (~b & c).
__device__ __forceinline__ uint64_t chi(uint64_t a, uint64_t b, uint64_t c) {
    return make_word(lop3<0xD2>(low_word(a), low_word(b), low_word(c)), lop3<0xD2>(high_word(a), high_word(b), high_word(c)));
}

// keccak_round is theta, rho and pi (into b), then chi and iota. Word (x, y) is a[x + 5y].
__device__ __forceinline__ void keccak_round(uint64_t (&a)[keccak_words], uint64_t iota) {
    uint64_t c[5], t[5], b[keccak_words];
#pragma unroll
    for (int x = 0; x < 5; x++) c[x] = xor3(xor3(a[x], a[x + 5], a[x + 10]), a[x + 15], a[x + 20]);
#pragma unroll
    for (int x = 0; x < 5; x++) t[x] = rotate_left<1>(c[x]);
    // b[pi(x, y)] = rotate(a[x, y] ^ c[x - 1] ^ rotate(c[x + 1], 1), rho(x, y))
    b[0] = xor3(a[0], c[4], t[1]);
    b[1] = rotate_left<44>(xor3(a[6], c[0], t[2]));
    b[2] = rotate_left<43>(xor3(a[12], c[1], t[3]));
    b[3] = rotate_left<21>(xor3(a[18], c[2], t[4]));
    b[4] = rotate_left<14>(xor3(a[24], c[3], t[0]));
    b[5] = rotate_left<28>(xor3(a[3], c[2], t[4]));
    b[6] = rotate_left<20>(xor3(a[9], c[3], t[0]));
    b[7] = rotate_left<3>(xor3(a[10], c[4], t[1]));
    b[8] = rotate_left<45>(xor3(a[16], c[0], t[2]));
    b[9] = rotate_left<61>(xor3(a[22], c[1], t[3]));
    b[10] = rotate_left<1>(xor3(a[1], c[0], t[2]));
    b[11] = rotate_left<6>(xor3(a[7], c[1], t[3]));
    b[12] = rotate_left<25>(xor3(a[13], c[2], t[4]));
    b[13] = rotate_left<8>(xor3(a[19], c[3], t[0]));
    b[14] = rotate_left<18>(xor3(a[20], c[4], t[1]));
    b[15] = rotate_left<27>(xor3(a[4], c[3], t[0]));
    b[16] = rotate_left<36>(xor3(a[5], c[4], t[1]));
    b[17] = rotate_left<10>(xor3(a[11], c[0], t[2]));
    b[18] = rotate_left<15>(xor3(a[17], c[1], t[3]));
    b[19] = rotate_left<56>(xor3(a[23], c[2], t[4]));
    b[20] = rotate_left<62>(xor3(a[2], c[1], t[3]));
    b[21] = rotate_left<55>(xor3(a[8], c[2], t[4]));
    b[22] = rotate_left<39>(xor3(a[14], c[3], t[0]));
    b[23] = rotate_left<41>(xor3(a[15], c[4], t[1]));
    b[24] = rotate_left<2>(xor3(a[21], c[0], t[2]));
#pragma unroll
    for (int y = 0; y < keccak_words; y += 5)
#pragma unroll
        for (int x = 0; x < 5; x++) a[y + x] = chi(b[y + x], b[y + (x + 1) % 5], b[y + (x + 2) % 5]);
    a[0] ^= iota;
}

// keccak_f permutes a thread's own state. Two rounds a turn keep the loop in the instruction cache.
__device__ __forceinline__ void keccak_f(uint64_t (&a)[keccak_words]) {
#pragma unroll 1
    for (int r = 0; r < keccak_rounds; r += 2) {
        keccak_round(a, keccak_iota[r]);
        keccak_round(a, keccak_iota[r + 1]);
    }
}

__device__ __forceinline__ void clear_state(uint64_t (&a)[keccak_words]) {
#pragma unroll
    for (int i = 0; i < keccak_words; i++) a[i] = 0;
}

// set_seed makes the state of SHAKE256 over four words (32 bytes), padded, before its first permutation.
__device__ __forceinline__ void set_seed(uint64_t (&a)[keccak_words], uint64_t s0, uint64_t s1, uint64_t s2, uint64_t s3) {
    clear_state(a);
    a[0] = s0, a[1] = s1, a[2] = s2, a[3] = s3, a[4] = shake_suffix;
    a[shake256_rate / 8 - 1] = uint64_t{1} << 63;
}

// WarpKeccak permutes a state whose word i is held by lane i, i < 25; lanes 25 to 31 mirror lanes 0 to 6 and take part in
// every exchange. It holds what a lane needs to know of its place.
struct WarpKeccak {
    int column[4];           // the other four words of this word's column
    int before, after;       // words of the columns x - 1 and x + 1
    int chi0, chi1, chi2;    // where pi takes the words that chi combines into this one
    uint32_t rotation;       // rho, modulo 32
    bool swap;               // rho >= 32
    uint64_t iota;           // all bits for word 0 and its mirror, none for the others

    __device__ __forceinline__ explicit WarpKeccak(int lane) {
        const int word = lane < keccak_words ? lane : lane - keccak_words, x = word % 5, y = word / 5;
#pragma unroll
        for (int i = 0; i < 4; i++) column[i] = (word + 5 * (i + 1)) % keccak_words;
        before = (x + 4) % 5 + 5 * y;
        after = (x + 1) % 5 + 5 * y;
        chi0 = source(x, y), chi1 = source((x + 1) % 5, y), chi2 = source((x + 2) % 5, y);
        const uint32_t rho = keccak_rho[word];
        rotation = rho % 32;
        swap = rho >= 32;
        iota = word == 0 ? ~uint64_t{0} : 0;
    }
    // pi moves word (X, Y) to (Y, 2X + 3Y), so (x, y) comes from (x + 3y, x).
    static __device__ __forceinline__ int source(int x, int y) { return (x + 3 * y) % 5 + 5 * x; }

    // permute returns this lane's word of the permuted state. All lanes of the warp call it.
    // What a round costs is its 18 32-bit exchanges: summing both columns that theta wants in every lane saves one of the three
    // waits, but takes 26, and is slower. Round constants are loaded a round ahead.
    __device__ __forceinline__ uint64_t permute(uint64_t a) const {
        uint64_t constant = keccak_iota[0] & iota;
#pragma unroll 2
        for (int r = 0; r < keccak_rounds; r++) {
            uint64_t parity = a;
#pragma unroll
            for (int i = 0; i < 4; i++) parity ^= __shfl_sync(all_lanes, a, column[i]);
            const uint64_t left = __shfl_sync(all_lanes, parity, before), right = __shfl_sync(all_lanes, parity, after);
            a = xor3(a, left, rotate_left<1>(right));
            const uint32_t low = swap ? high_word(a) : low_word(a), high = swap ? low_word(a) : high_word(a);
            a = make_word(__funnelshift_l(high, low, rotation), __funnelshift_l(low, high, rotation));
            const uint64_t own = __shfl_sync(all_lanes, a, chi0) ^ constant;
            constant = keccak_iota[min(r + 1, keccak_rounds - 1)] & iota;
            a = chi(own, __shfl_sync(all_lanes, a, chi1), __shfl_sync(all_lanes, a, chi2));
        }
        return a;
    }
};

}   // namespace ctruprime
