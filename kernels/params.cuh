// The three parameter sets of CTRU-Prime (Z_q[x]/(x^n - x - 1)) and what follows from them. Everything here is a
// compile-time constant; every size is in bytes unless its name says otherwise.
#pragma once
#include "device/device.h"

namespace ctruprime {

constexpr int warp_size = 32;
constexpr uint32_t all_lanes = 0xffffffffu;

// round_up gives the least multiple of step that is >= x.
constexpr int round_up(int x, int step) { return (x + step - 1) / step * step; }
constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }

// Choice holds the numbers that define a set: the modulus q, the width eta of the centred binomial distribution, and
// d, the bits of a ciphertext coefficient (q2 = 2^d).
template <int n> struct Choice;
template <> struct Choice<653> { static constexpr int q = 4621, eta = 3, d = 11; };
template <> struct Choice<761> { static constexpr int q = 4591, eta = 2, d = 10; };
template <> struct Choice<1277> { static constexpr int q = 7879, eta = 2, d = 10; };

constexpr int seed_bytes = 32;       // a seed, z, and the shared key
constexpr int identity_bytes = 33;   // the part of a public key that is hashed
constexpr int key_bits = 13;         // bits of a public-key coefficient: q < 2^13 in every set
constexpr int shake256_rate = 136;   // FIPS 202
constexpr int sha3_512_rate = 72;
constexpr uint64_t shake_suffix = 0x1F, sha3_suffix = 0x06;   // FIPS 202: domain bits and the first bit of the padding

template <int n_> struct Parameters : Choice<n_> {
    using Choice<n_>::q;
    using Choice<n_>::eta;
    using Choice<n_>::d;
    static constexpr int n = n_;
    static constexpr uint32_t q2 = 1u << d;

    static constexpr int message_bytes = n / 16;             // one E8 block of 8 coefficients carries a nibble
    static constexpr int blocks = 2 * message_bytes;
    static constexpr int coin_bytes = ceil_div(2 * eta * n, 8);
    static constexpr int public_bytes = ceil_div(key_bits * n, 8);
    static constexpr int cipher_bytes = ceil_div(d * n, 8);
    static constexpr int secret_poly_bytes = ceil_div(n, 2);
    static constexpr int secret_bytes = secret_poly_bytes + public_bytes + seed_bytes;   // sk_f || pk || z
    static constexpr int encaps_in_bytes = public_bytes + seed_bytes;                    // pk || seed
    static constexpr int encaps_out_bytes = cipher_bytes + seed_bytes;                   // ct || key
    static constexpr int keygen_in_bytes = 2 * seed_bytes;                               // seed || z

    static constexpr int f_max = 2 * eta + 1;                // |f_i| <= 2*eta + 1, and so |f'_i|, |g_i|, |r_i| <= eta
    static constexpr int nibble_max = 4 * eta + 1;           // sk_f holds 2*eta + 1 - f_i, f_i >= -2*eta

    // A warp holds a polynomial as `per_lane` consecutive coefficients a lane, zero from n on. A multiple of 8 makes
    // every lane's share of any packed form start at a whole byte and hold whole E8 blocks.
    static constexpr int per_lane = round_up(ceil_div(n, warp_size), 8);
    static constexpr int padded = warp_size * per_lane;

    // Rows of the scratch arrays that one kernel leaves for the next, 16-byte aligned.
    static constexpr int message_row = round_up(message_bytes, 16);
    static constexpr int coin_row = round_up(coin_bytes, 16);
};

}   // namespace ctruprime
