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
#include "lanes.cuh"

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

__device__ __forceinline__ Number number(const uint32_t (&w)[8]) {
    Number r;
#pragma unroll
    for (int i = 0; i < limbs; i++) r.limb[i] = static_cast<int32_t>(limb_of(w, i));
    return r;
}

// Column is a column (u, q) or (v, r) of a matrix [u v; q r] / 2^30, whose rows make the new f and g of the old ones.
// |u| + |v| <= 2^30 and |q| + |r| <= 2^30.
struct Column {
    uint32_t top, bottom;
};

// steps does 30 division steps on the low 32 bits of f and g, and to one or both columns of the identity matrix. zeta is
// -(delta + 1/2), negative exactly if delta > 0.
template <int columns> __device__ __forceinline__ void steps(int32_t &zeta, uint32_t f, uint32_t g, Column (&column)[columns]) {
#pragma unroll 10
    for (int i = 0; i < limb_bits; i++) {
        const uint32_t positive = static_cast<uint32_t>(zeta >> 31), odd = 0u - (g & 1), swap = positive & odd;
        // If g is odd the top row is added to the bottom one, or taken off if delta > 0: (x XOR -1) + 1 is -x.
        constexpr int xor_and = 0x28;   // (a ^ b) & c in one instruction
        const uint32_t sum = g + lop3<xor_and>(f, positive, odd) - swap;
        f = lanes::choose(f, g, swap);
        g = sum >> 1;
#pragma unroll
        for (Column &c : column) {
            const uint32_t bottom = c.bottom + lop3<xor_and>(c.top, positive, odd) - swap;
            c.top = lanes::choose(c.top, c.bottom, swap) << 1;   // instead of halving the bottom
            c.bottom = bottom;
        }
        zeta = (zeta ^ static_cast<int32_t>(swap)) - 1;
    }
}

__device__ __forceinline__ int64_t product(int32_t a, int32_t b) { return static_cast<int64_t>(a) * b; }
// low_limb gives the low 30 bits; by lop3, as a compiler that sees that they are not negative takes three instructions instead of
// one for their products with numbers that may be.
__device__ __forceinline__ int32_t low_limb(int64_t x) {
    constexpr int a_and_b = 0xC0;
    return static_cast<int32_t>(lop3<a_and_b>(static_cast<uint32_t>(x), limb_mask, 0));
}

// combine gives (a x + b y) / 2^30 for a row (a, b) of a matrix, two's complement. If `modular` is all ones it does so modulo M: a multiple of M
// is added that makes the sum divisible, chosen so that x and y in (-2M, M) give a result in (-2M, M). If it is
// zero the sum is divisible already.
__device__ __forceinline__ Number combine(uint32_t row_x, uint32_t row_y, const Number &x, const Number &y, const Modulus &m, uint32_t modular) {
    const int32_t a = static_cast<int32_t>(row_x), b = static_cast<int32_t>(row_y);
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

// low_word gives the low 32 bits.
__device__ __forceinline__ uint32_t low_word(const Number &x) {
    return static_cast<uint32_t>(x.limb[0]) | static_cast<uint32_t>(x.limb[1]) << limb_bits;
}

// invert gives 1/x modulo M in [0, M) for x in [0, M), and 0 for 0. One lane does it all; lanes may have different moduli.
__device__ __forceinline__ void invert(const uint32_t (&x)[8], const Modulus &m, uint32_t (&r)[8]) {
    Number f = m.value, g = number(x), d = {}, e = {{1}};
    int32_t zeta = -1;
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
        Column t[2] = {{1, 0}, {0, 1}};
        steps(zeta, low_word(f), low_word(g), t);
        const Number new_d = combine(t[0].top, t[1].top, d, e, m, ~0u), new_f = combine(t[0].top, t[1].top, f, g, m, 0);
        e = combine(t[0].bottom, t[1].bottom, d, e, m, ~0u);
        g = combine(t[0].bottom, t[1].bottom, f, g, m, 0);
        d = new_d;
        f = new_f;
    }
    normalise(d, f, m.value, r);
}

// invert_by_four does the same on four neighbouring lanes, which share x and get the result each, for when it counts that it is
// soon there: they hold f, g, d and e. The whole warp takes part.
__device__ __forceinline__ void invert_by_four(const uint32_t (&x)[8], const Modulus &m, int lane, uint32_t (&r)[8]) {
    const int first = lane - lane % 4, neighbour = lane ^ 1;
    const bool is_second = lane % 2 != 0, modular = lane % 4 >= 2;   // g or e; d or e
    const Number g = number(x);
    Number own, other;   // f and g, or d and e, or the other way round
#pragma unroll
    for (int i = 0; i < limbs; i++) {
        const int32_t one = i == 0 ? 1 : 0;
        own.limb[i] = modular ? (is_second ? one : 0) : is_second ? g.limb[i] : m.value.limb[i];
        other.limb[i] = modular ? (is_second ? 0 : one) : is_second ? m.value.limb[i] : g.limb[i];
    }
    int32_t zeta = -1;
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
        const uint32_t low = low_word(own);
        Column t[1] = {{is_second ? 0u : 1u, is_second ? 1u : 0u}};   // each lane makes one column, and needs a row
        steps(zeta, __shfl_sync(lanes::all, low, first), __shfl_sync(lanes::all, low, first + 1), t);
        const uint32_t from_neighbour = __shfl_sync(lanes::all, is_second ? t[0].top : t[0].bottom, neighbour);
        own = combine(is_second ? t[0].bottom : t[0].top, from_neighbour, own, other, m, lanes::mask_if(modular));
#pragma unroll
        for (int i = 0; i < limbs; i++) other.limb[i] = __shfl_sync(lanes::all, own.limb[i], neighbour);
    }
    Number f = {}, d;
    f.limb[limbs - 1] = __shfl_sync(lanes::all, own.limb[limbs - 1], first);   // its sign is what counts
#pragma unroll
    for (int i = 0; i < limbs; i++) d.limb[i] = __shfl_sync(lanes::all, own.limb[i], first + 2);
    normalise(d, f, m.value, r);
}

}   // namespace divsteps
