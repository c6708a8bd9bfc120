// Inverses modulo an odd number below 2^256 by division steps, in constant time: D. J. Bernstein and B.-Y. Yang, "Fast
// constant-time gcd computation and modular inversion", TCHES 2019(3), in the variant that starts from delta = 1/2 (P. Wuille,
// "The safegcd implementation in libsecp256k1 explained"), which needs 590 steps for 256 bits.
//
// A step maps (delta, f, g), f odd, to (1 - delta, g, (g - f)/2) if delta > 0 and g is odd, else to (1 + delta, f, (g + (g odd ? f
// : 0))/2). It only looks at delta and at the lowest bit of g, so 30 steps are found from the low 32 bits of f and g
// as one matrix, which is then applied to the whole numbers. From f = M, g = x it comes to g = 0, f = +-gcd(M, x); the same
// steps on d = 0, e = 1, modulo M, keep d x = f and e x = g, so d ends as +-1/x. For x = 0 the result is 0.
//
// Numbers are nine limbs of 30 bits, all but the highest non-negative. Loops run a fixed number of times, and what depends
// on values is done by masks.
#pragma once
#include "device/device.h"

namespace divsteps {

constexpr int limb_bits = 30, limbs = 9;
constexpr uint32_t limb_mask = (1u << limb_bits) - 1;
constexpr int rounds = 20;
static_assert(rounds * limb_bits >= 590 && limbs * limb_bits >= 256 + 2, "enough steps, and room for the sign and one doubling");

struct Number {
    int32_t limb[limbs];
};
struct Modulus {
    Number value;
    uint32_t inverse;   // 1/M modulo 2^30
};

// limb_of gives bits 30i .. 30i + 29 of a 256-bit number.
constexpr __host__ __device__ __forceinline__ uint32_t limb_of(const uint32_t *w, int i) {
    const int word = limb_bits * i / 32, shift = limb_bits * i % 32;
    const uint64_t two = w[word] | (word < 7 ? static_cast<uint64_t>(w[word + 1]) << 32 : 0);
    return static_cast<uint32_t>(two >> shift) & limb_mask;
}

// modulus computes the constants for M from its words.
constexpr Modulus modulus(const uint32_t (&words)[8]) {
    Modulus m = {};
    for (int i = 0; i < limbs; i++) m.value.limb[i] = static_cast<int32_t>(limb_of(words, i));
    uint32_t inverse = words[0];   // to 3 bits, and each turn doubles that: 6, 12, 24, 48
    for (int i = 0; i < 4; i++) inverse *= 2 - words[0] * inverse;
    m.inverse = inverse & limb_mask;
    return m;
}

constexpr uint32_t ones = 0xffffffffu;
__constant__ const Modulus modulus_25519 = modulus({ones - 18, ones, ones, ones, ones, ones, ones, ones >> 1});

// Matrix stands for [u v; q r] / 2^30. |u| + |v| <= 2^30 and |q| + |r| <= 2^30.
struct Matrix {
    int32_t u, v, q, r;
};

// steps does 30 division steps on the low 32 bits of f and g. zeta is -(delta + 1/2), negative exactly if delta > 0.
__device__ __forceinline__ Matrix steps(int32_t &zeta, uint32_t f, uint32_t g) {
    uint32_t u = 1, v = 0, q = 0, r = 1;
#pragma unroll 10
    for (int i = 0; i < limb_bits; i++) {
        const uint32_t positive = static_cast<uint32_t>(zeta >> 31), odd = 0u - (g & 1);
        g += ((f ^ positive) - positive) & odd;   // +f or -f
        q += ((u ^ positive) - positive) & odd;
        r += ((v ^ positive) - positive) & odd;
        const uint32_t swap = positive & odd;     // then f becomes the old g: the new g plus f
        zeta = (zeta ^ static_cast<int32_t>(swap)) - 1;
        f += g & swap;
        u += q & swap;
        v += r & swap;
        g >>= 1;
        u <<= 1;   // the common denominator doubles
        v <<= 1;
    }
    return {static_cast<int32_t>(u), static_cast<int32_t>(v), static_cast<int32_t>(q), static_cast<int32_t>(r)};
}

__device__ __forceinline__ int64_t product(int32_t a, int32_t b) { return static_cast<int64_t>(a) * b; }
__device__ __forceinline__ int32_t low_limb(int64_t x) { return static_cast<int32_t>(static_cast<uint32_t>(x) & limb_mask); }

// combine gives (a x + b y) / 2^30 for a row (a, b) of a matrix. If `modular` is all ones it does so modulo M: a multiple of M
// is added that makes the sum divisible, chosen so that x and y in (-2M, M) give a result in (-2M, M). If it is
// zero the sum is divisible already.
__device__ __forceinline__ Number combine(int32_t a, int32_t b, const Number &x, const Number &y, const Modulus &m, uint32_t modular) {
    const int32_t x_sign = x.limb[limbs - 1] >> 31, y_sign = y.limb[limbs - 1] >> 31;
    int64_t sum = product(a, x.limb[0]) + product(b, y.limb[0]);
    int32_t multiple = (a & x_sign) + (b & y_sign);   // as if M had been added to the negative ones
    multiple -= static_cast<int32_t>((m.inverse * static_cast<uint32_t>(sum) + static_cast<uint32_t>(multiple)) & limb_mask);
    multiple &= static_cast<int32_t>(modular);
    sum = (sum + product(m.value.limb[0], multiple)) >> limb_bits;
    Number r;
#pragma unroll
    for (int i = 1; i < limbs; i++) {
        sum += product(a, x.limb[i]) + product(b, y.limb[i]) + product(m.value.limb[i], multiple);
        r.limb[i - 1] = low_limb(sum);
        sum >>= limb_bits;
    }
    r.limb[limbs - 1] = static_cast<int32_t>(sum);
    return r;
}

// carry makes all limbs but the highest non-negative again.
__device__ __forceinline__ void carry(Number &x) {
#pragma unroll
    for (int i = 0; i < limbs - 1; i++) {
        x.limb[i + 1] += x.limb[i] >> limb_bits;
        x.limb[i] &= static_cast<int32_t>(limb_mask);
    }
}

// add_if_negative adds M to a negative number, limb by limb.
__device__ __forceinline__ void add_if_negative(Number &x, const Number &m) {
    const int32_t negative = x.limb[limbs - 1] >> 31;
#pragma unroll
    for (int i = 0; i < limbs; i++) x.limb[i] += m.limb[i] & negative;
}

// normalise maps d in (-2M, M), negated if f is negative, to [0, M), as eight words.
__device__ __forceinline__ void normalise(Number d, const Number &f, const Number &m, uint32_t (&r)[8]) {
    const int32_t sign = f.limb[limbs - 1] >> 31;
    add_if_negative(d, m);   // in (-M, M)
#pragma unroll
    for (int i = 0; i < limbs; i++) d.limb[i] = (d.limb[i] ^ sign) - sign;
    carry(d);
    add_if_negative(d, m);
    carry(d);
#pragma unroll
    for (int i = 0; i < 8; i++) {   // word i lies in limbs (32i)/30 and the next
        const int first = 32 * i / limb_bits, shift = 32 * i % limb_bits;
        r[i] = static_cast<uint32_t>(d.limb[first]) >> shift | static_cast<uint32_t>(d.limb[first + 1]) << (limb_bits - shift);
    }
}

// invert gives 1/x modulo M in [0, M) for x in [0, M), and 0 for 0. One lane does it all; lanes may have different moduli.
__device__ __forceinline__ void invert(const uint32_t (&x)[8], const Modulus &m, uint32_t (&r)[8]) {
    Number f = m.value, g, d = {}, e = {};
#pragma unroll
    for (int i = 0; i < limbs; i++) g.limb[i] = static_cast<int32_t>(limb_of(x, i));
    e.limb[0] = 1;
    int32_t zeta = -1;
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
        const uint32_t f_low = static_cast<uint32_t>(f.limb[0]) | static_cast<uint32_t>(f.limb[1]) << limb_bits;
        const uint32_t g_low = static_cast<uint32_t>(g.limb[0]) | static_cast<uint32_t>(g.limb[1]) << limb_bits;
        const Matrix t = steps(zeta, f_low, g_low);
        const Number new_d = combine(t.u, t.v, d, e, m, ~0u);
        e = combine(t.q, t.r, d, e, m, ~0u);
        d = new_d;
        const Number new_f = combine(t.u, t.v, f, g, m, 0);
        g = combine(t.q, t.r, f, g, m, 0);
        f = new_f;
    }
    normalise(d, f, m.value, r);
}

}   // namespace divsteps
