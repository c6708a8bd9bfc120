// Coding between bytes and coefficients: bit packing, the centred binomial distribution, compression, the E8 code, and
// reductions modulo q. Bit streams are little-endian; coefficient i of width w is bits [w*i, w*i + w).
//
// A warp holds a polynomial in one of two forms, `per_lane` consecutive coefficients a lane, zero from n on:
//   pairs   two unsigned 16-bit coefficients a word, for h, ciphertexts and residues;
//   bytes   four signed 8-bit coefficients a word, for f, g and r.
// Nothing here branches on, or addresses by, anything but positions and sizes.
#pragma once
#include "params.cuh"

namespace ctruprime {

// ---- Reductions ----

// reduce_q gives x mod q for any x. With M = floor(2^32/q), 0 <= x/q - x*M/2^32 < x/2^32 < 1, so the quotient is exact or
// one too small, and the remainder is below 2q; the unsigned minimum then takes q off if it can.
template <class P> __device__ __forceinline__ uint32_t reduce_q(uint32_t x) {
    constexpr uint32_t reciprocal = static_cast<uint32_t>((uint64_t{1} << 32) / P::q);
    x -= __umulhi(x, reciprocal) * P::q;
    return min(x, x - P::q);
}

// multiple_of_q is the least multiple of q that is >= bound: added to a value in [-bound, ...) it makes it non-negative.
template <class P> constexpr uint32_t multiple_of_q(uint32_t bound) { return (bound + P::q - 1) / P::q * P::q; }

// centre_q maps [0, q) to (-q/2, q/2).
template <class P> __device__ __forceinline__ int32_t centre_q(uint32_t x) {
    return static_cast<int32_t>(x) - (x > P::q / 2 ? P::q : 0);
}

// scaled_fraction computes T with floor(((x mod q)*q2 + floor(q/2))/q) mod q2 = T >> (32 - d), for any x: the compressed
// coefficient is T's top d bits.
// Let U = 2^32*x/q mod 2^32 and H = 2^(32-d)*floor(q/2)/q: the quotient sought is floor((U + H)/2^(32-d)), and adding
// multiples of q to x changes U by multiples of 2^32 only. With C = floor(2^64/q), floor(x*C/2^32) mod 2^32 is in (U - 2, U].
// U + H is a multiple of 2^(32-d)/q, which is more than 450 in every set, so any value in [U + H, U + H + 450) has the same
// floor; the bias floor(H) + 3 lands in [U + H, U + H + 3].
template <class P> __device__ __forceinline__ uint32_t scaled_fraction(uint32_t x) {
    constexpr uint64_t reciprocal = ~uint64_t{0} / P::q;
    constexpr uint32_t bias = static_cast<uint32_t>((uint64_t{P::q / 2} << (32 - P::d)) / P::q) + 3;
    static_assert((uint64_t{1} << (32 - P::d)) / P::q > 450, "the bias needs slack");
    return __umulhi(x, static_cast<uint32_t>(reciprocal)) + (x * static_cast<uint32_t>(reciprocal >> 32) + bias);
}

// compress_pair gives the compressed coefficients of x0 and x1, any values congruent to them mod q, as one 2d-bit group.
template <class P> __device__ __forceinline__ uint32_t compress_pair(uint32_t x0, uint32_t x1) {
    return __funnelshift_l(scaled_fraction<P>(x0), scaled_fraction<P>(x1) >> (32 - P::d), P::d);
}

// ---- Bytes in memory ----

// load_words reads 8*count bytes at any address as little-endian 64-bit words, by aligned 32-bit loads that touch no byte
// outside the aligned words those bytes lie in.
template <int count> __device__ __forceinline__ void load_words(const uint8_t *p, uint64_t (&words)[count]) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    const uint32_t *aligned = reinterpret_cast<const uint32_t *>(p - address % 4);
    const uint32_t shift = 8 * static_cast<uint32_t>(address % 4);
    uint32_t w[2 * count + 1];
#pragma unroll
    for (int i = 0; i < 2 * count; i++) w[i] = aligned[i];
    w[2 * count] = 0;
    if (shift != 0) {   // the last word holds no more than three of the bytes: read those alone
#pragma unroll
        for (int i = 0; i < 3; i++)
            if (i < static_cast<int>(shift / 8)) w[2 * count] |= static_cast<uint32_t>(p[8 * count - shift / 8 + i]) << (8 * i);
    }
#pragma unroll
    for (int i = 0; i < count; i++)
        words[i] = static_cast<uint64_t>(__funnelshift_r(w[2 * i + 1], w[2 * i + 2], shift)) << 32 | __funnelshift_r(w[2 * i], w[2 * i + 1], shift);
}

// staged_bytes is the shared memory that stage_async needs for a row: up to 15 bytes before it, and a word to read beyond.
constexpr int staged_bytes(int bytes) { return round_up(15 + bytes + 4, 16); }

// stage_async starts copying a row of global memory at any address, with the 16-byte lines it lies in (but no byte past its
// end), to `staged` (16-byte aligned). The row then begins at staged + row_offset(row). The caller commits and waits.
// Its last line is a copy of 16 bytes of which fewer are read, which checkers of memory take for a read of all 16. So that they
// find no more than what is wrong, a row that ends its buffer, Ends::buffer, or may, says so: its last bytes are loaded one by one.
enum class Ends { before_others, buffer };
__device__ __forceinline__ uint32_t row_offset(const uint8_t *row) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) % 16); }
template <int bytes> __device__ __forceinline__ void stage_async(uint8_t *staged, const uint8_t *row, int rank, int size, Ends ends = Ends::before_others) {
    const int end = static_cast<int>(row_offset(row)) + bytes;
    const int copied = ends == Ends::buffer ? end & ~15 : end;
    const uint8_t *lines = row - row_offset(row);
#pragma unroll
    for (int i = 0; i < ceil_div(15 + bytes, 16 * warp_size); i++)
        for (int at = 16 * (rank + warp_size * i); at < 16 * warp_size * (i + 1) && at < copied; at += 16 * size)
            cp_async16_zfill(staged + at, lines + at, static_cast<uint32_t>(min(16, end - at)));
    for (int at = copied + rank; at < end; at += size) staged[at] = lines[at];
}

// store_row writes `bytes` bytes from shared memory (8-byte aligned, readable to 8 bytes past the end) to global memory at
// any address, each word masked with `keep`.
template <int bytes>
__device__ __forceinline__ void store_row(uint8_t *row, const uint32_t *staged, uint32_t keep, int rank, int size) {
    const uint32_t misaligned = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) % 8);
    if (misaligned == 0 && bytes % 8 == 0) {
        uint2 *to = reinterpret_cast<uint2 *>(row);
        const uint2 *from = reinterpret_cast<const uint2 *>(staged);
        for (int i = rank; i < bytes / 8; i += size) to[i] = make_uint2(from[i].x & keep, from[i].y & keep);
        return;
    }
    const int lead = static_cast<int>((4 - misaligned) % 4), words = (bytes - lead) / 4, tail = (bytes - lead) % 4;
    uint32_t *to = reinterpret_cast<uint32_t *>(row + lead);
    for (int i = rank; i < words; i += size) to[i] = __funnelshift_r(staged[i], staged[i + 1], 8 * lead) & keep;
    const uint8_t *from = reinterpret_cast<const uint8_t *>(staged);
    if (rank < lead) row[rank] = static_cast<uint8_t>(from[rank] & keep);
    if (rank < tail) row[bytes - tail + rank] = static_cast<uint8_t>(from[bytes - tail + rank] & keep);
}

// clear_row zeroes a scratch row whose address and size are multiples of 16.
template <int bytes> __device__ __forceinline__ void clear_row(uint8_t *row, int rank, int size) {
    static_assert(bytes % 16 == 0, "whole lines");
    for (int i = rank; i < bytes / 16; i += size) reinterpret_cast<uint4 *>(row)[i] = make_uint4(0, 0, 0, 0);
}

// ---- Unpacking, a warp a polynomial ----

// clear_pairs and clear_bytes zero the coefficients from n on.
template <class P> __device__ __forceinline__ void clear_pairs(int lane, uint32_t (&pair)[P::per_lane / 2]) {
    constexpr int last = P::n / P::per_lane, kept = P::n % P::per_lane;   // the lane that n falls in
    if (lane >= last) {
#pragma unroll
        for (int k = 0; k < P::per_lane / 2; k++) {
            const uint32_t mask = 2 * k + 1 < kept ? all_lanes : 2 * k < kept ? 0xFFFFu : 0u;
            pair[k] &= lane == last ? mask : 0u;
        }
    }
}
template <class P> __device__ __forceinline__ void clear_bytes(int lane, uint32_t (&bytes)[P::per_lane / 4]) {
    constexpr int last = P::n / P::per_lane, kept = P::n % P::per_lane;
    if (lane >= last) {
#pragma unroll
        for (int k = 0; k < P::per_lane / 4; k++) {
            const int whole = kept - 4 * k;
            const uint32_t mask = whole >= 4 ? all_lanes : whole > 0 ? (1u << (8 * whole)) - 1 : 0u;
            bytes[k] &= lane == last ? mask : 0u;
        }
    }
}

// lane_words reads a lane's share of a packed row, `words` words from byte `position` of 4-byte aligned shared memory.
template <int words> __device__ __forceinline__ void lane_words(const uint8_t *staged, uint32_t position, uint32_t (&w)[words]) {
    const uint32_t *from = reinterpret_cast<const uint32_t *>(staged) + position / 4;
    const uint32_t shift = 8 * (position % 4);
    uint32_t held = from[0];
#pragma unroll
    for (int i = 0; i < words; i++) {
        const uint32_t next = from[i + 1];
        w[i] = __funnelshift_r(held, next, shift);
        held = next;
    }
}

// bit_field takes `width` bits from bit `at` of w; both are constants after unrolling.
template <int width, int words> __device__ __forceinline__ uint32_t bit_field(const uint32_t (&w)[words], int at) {
    const int i = at / 32, shift = at % 32;
    const uint32_t field = shift + width <= 32 ? w[i] >> shift : __funnelshift_r(w[i], w[i + 1 < words ? i + 1 : i], shift);
    return field & static_cast<uint32_t>((uint64_t{1} << width) - 1);
}

// unpack_pairs reads a packed polynomial of `width`-bit coefficients, width <= 16, whose row begins at staged + offset.
template <class P, int width>
__device__ __forceinline__ void unpack_pairs(const uint8_t *staged, uint32_t offset, int lane, uint32_t (&pair)[P::per_lane / 2]) {
    constexpr int lane_bytes = P::per_lane * width / 8;
    uint32_t w[ceil_div(lane_bytes, 4)];
    lane_words(staged, offset + lane_bytes * static_cast<uint32_t>(lane), w);
#pragma unroll
    for (int k = 0; k < P::per_lane / 2; k++) {
        const uint32_t both = bit_field<2 * width>(w, 2 * width * k);
        pair[k] = (both & ((1u << width) - 1)) | (both >> width) << 16;
    }
    clear_pairs<P>(lane, pair);
}

// staged_polynomial is the shared memory for a staged row that unpack_pairs reads: every lane's share lies in it.
template <class P, int width> constexpr int staged_polynomial() { return staged_bytes(P::padded * width / 8); }

// invalid_public says, for each lane, whether its coefficients hold one >= q, or the row's unused top bits are not zero.
template <class P>
__device__ __forceinline__ bool invalid_public(const uint8_t *staged, uint32_t offset, const uint32_t (&pair)[P::per_lane / 2]) {
    uint32_t over = 0;   // adding 2^15 - q carries into bit 15 exactly from q on, since a coefficient is below 2^13
#pragma unroll
    for (int k = 0; k < P::per_lane / 2; k++) over |= pair[k] + (0x8000u - P::q) * 0x00010001u;
    const uint32_t last = staged[offset + P::public_bytes - 1];
    return (over & 0x80008000u) != 0 || last >> (key_bits * P::n - 8 * (P::public_bytes - 1)) != 0;
}

// ---- Small polynomials, a warp a polynomial ----

// biased_cbd reads the centred binomial distribution from coins at staged + offset: byte i is 8 + coefficient i, for all
// padded coefficients.
template <class P>
__device__ __forceinline__ void biased_cbd(const uint8_t *staged, uint32_t offset, int lane, uint32_t (&bytes)[P::per_lane / 4]) {
    constexpr int lane_bytes = P::per_lane * 2 * P::eta / 8;
    uint32_t w[ceil_div(lane_bytes, 4)];
    lane_words(staged, offset + lane_bytes * static_cast<uint32_t>(lane), w);
    if constexpr (P::eta == 2) {
#pragma unroll
        for (int k = 0; k < P::per_lane / 8; k++) {   // eight coefficients a word, a nibble each: 2-bit sums, then 8 + a - b
            const uint32_t sums = (w[k] & 0x55555555u) + (w[k] >> 1 & 0x55555555u);
            const uint32_t nibbles = (0x88888888u | (sums & 0x33333333u)) - (sums >> 2 & 0x33333333u);
            const uint32_t even = nibbles & 0x0F0F0F0Fu, odd = nibbles >> 4 & 0x0F0F0F0Fu;
            bytes[2 * k] = __byte_perm(even, odd, 0x5140);
            bytes[2 * k + 1] = __byte_perm(even, odd, 0x7362);
        }
    } else {
        static_assert(P::eta == 3, "a width with code of its own");
#pragma unroll
        for (int k = 0; k < P::per_lane / 4; k++) {   // four coefficients in 24 bits, six each: 3-bit sums, then 8 + a - b
            const uint32_t bits = bit_field<24>(w, 24 * k);
            const uint32_t sums = (bits & 0x249249u) + (bits >> 1 & 0x249249u) + (bits >> 2 & 0x249249u);
            const uint32_t six = (0x208208u | (sums & 0x1C71C7u)) - (sums >> 3 & 0x1C71C7u);
            bytes[k] = (six & 0x3Fu) | (six << 2 & 0x3F00u) | (six << 4 & 0x3F0000u) | (six << 6 & 0x3F000000u);
        }
    }
}

// small_cbd gives the distribution itself, |coefficient| <= eta, zero from n on. In each byte (x + 0x78) ^ 0x80 = x - 8.
template <class P>
__device__ __forceinline__ void small_cbd(const uint8_t *staged, uint32_t offset, int lane, uint32_t (&bytes)[P::per_lane / 4]) {
    biased_cbd<P>(staged, offset, lane, bytes);
#pragma unroll
    for (int k = 0; k < P::per_lane / 4; k++) bytes[k] = (bytes[k] + 0x78787878u) ^ 0x80808080u;
    clear_bytes<P>(lane, bytes);
}

// secret_cbd gives f = 2f' + 1. In each byte (2x + 0x70) ^ 0x80 = 2(x - 8); the top bit of x is free, so no byte overflows.
template <class P>
__device__ __forceinline__ void secret_cbd(const uint8_t *staged, uint32_t offset, int lane, uint32_t (&bytes)[P::per_lane / 4]) {
    biased_cbd<P>(staged, offset, lane, bytes);
#pragma unroll
    for (int k = 0; k < P::per_lane / 4; k++) bytes[k] = (2 * bytes[k] + 0x70707070u) ^ 0x80808080u;
    clear_bytes<P>(lane, bytes);
    if (lane == 0) bytes[0] = (bytes[0] & 0xFFFFFF00u) | ((bytes[0] + 1) & 0xFFu);
}

// secret_nibbles reads f from sk_f at staged + offset, and says for each lane whether it saw a nibble out of range. A row's
// values out of range give wrong coefficients, within [-15 + f_max, f_max].
template <class P>
__device__ __forceinline__ bool secret_nibbles(const uint8_t *staged, uint32_t offset, int lane, uint32_t (&bytes)[P::per_lane / 4]) {
    uint32_t w[P::per_lane / 8];
    lane_words(staged, offset + P::per_lane / 2 * static_cast<uint32_t>(lane), w);
#pragma unroll
    for (int k = 0; k < P::per_lane / 8; k++) {
        const uint32_t even = w[k] & 0x0F0F0F0Fu, odd = w[k] >> 4 & 0x0F0F0F0Fu;
        bytes[2 * k] = __byte_perm(even, odd, 0x5140);
        bytes[2 * k + 1] = __byte_perm(even, odd, 0x7362);
    }
    clear_bytes<P>(lane, bytes);
    uint32_t over = 0;
#pragma unroll
    for (int k = 0; k < P::per_lane / 4; k++) {
        over |= bytes[k] + (0x7Fu - P::nibble_max) * 0x01010101u;               // bit 7 exactly above nibble_max
        bytes[k] = ((0x80u + P::f_max) * 0x01010101u - bytes[k]) ^ 0x80808080u;   // f_max - nibble, without a borrow between bytes
    }
    clear_bytes<P>(lane, bytes);
    return (over & 0x80808080u) != 0 || staged[offset + P::secret_poly_bytes - 1] >> 4 != 0;   // n is odd: one nibble is padding
}

// packed_secret_nibbles is the inverse: the words of sk_f, eight coefficients each, padding zero.
template <class P>
__device__ __forceinline__ void packed_secret_nibbles(const uint32_t (&bytes)[P::per_lane / 4], int lane, uint32_t (&w)[P::per_lane / 8]) {
    uint32_t nibbles[P::per_lane / 4];   // f_max - f; f + 128 = byte ^ 0x80 as an unsigned byte, so nothing borrows
#pragma unroll
    for (int k = 0; k < P::per_lane / 4; k++) nibbles[k] = (0x80u + P::f_max) * 0x01010101u - (bytes[k] ^ 0x80808080u);
    clear_bytes<P>(lane, nibbles);
#pragma unroll
    for (int k = 0; k < P::per_lane / 8; k++)
        w[k] = __byte_perm(nibbles[2 * k] | nibbles[2 * k] >> 4, nibbles[2 * k + 1] | nibbles[2 * k + 1] >> 4, 0x6420);
}

// ---- Packing ----

// pack_groups joins groups of 2*width bits, `padded/2` of them in shared memory, into a bit stream of words there.
template <class P, int width> __device__ __forceinline__ void pack_groups(const uint32_t *groups, uint32_t *stream, int rank, int size) {
    constexpr int row = 2 * width % 32 == 20 ? 8 : 16;   // groups that fill whole words: 8 x 20 bits, 16 x 22, 16 x 26
    constexpr int words = row * 2 * width / 32;
    static_assert(row * 2 * width % 32 == 0, "a row fills whole words");
    for (int r = rank; r < P::padded / 2 / row; r += size) {
        uint64_t held = 0;
        int bits = 0, word = 0;
#pragma unroll
        for (int k = 0; k < row; k++) {
            held |= static_cast<uint64_t>(groups[r * row + k]) << bits;
            bits += 2 * width;
            if (bits >= 32) {
                stream[r * words + word++] = static_cast<uint32_t>(held);
                held >>= 32;
                bits -= 32;
            }
        }
    }
}
// stream_words is the length of that stream.
template <class P, int width> constexpr int stream_words() { return P::padded * width / 32; }

// ---- The E8 code ----

// codewords gives the codewords of a message byte's two nibbles: bit j belongs to coefficient 16b + j of message byte b.
__device__ __forceinline__ uint32_t codewords(uint32_t message) {
    constexpr uint32_t generator[4] = {0x55, 0x0F, 0x3C, 0xF0};
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) word ^= (0u - (message >> k & 1)) & generator[k % 4] << (k / 4 * 8);
    return word;
}

// store_codewords expands a message into the 16-bit words that add_codeword_bits reads, one for each 16 coefficients, zero
// past the blocks.
template <class P> __device__ __forceinline__ void store_codewords(const uint8_t *message, uint16_t *words, int rank, int size) {
    for (int b = rank; b < P::padded / 16; b += size) words[b] = b < P::message_bytes ? static_cast<uint16_t>(codewords(message[b])) : 0;
}

// add_codeword_bits adds q2/2 times bits 0 and 1 of `bits` to the two coefficients of a compressed group, mod q2. The
// product puts bit 0 at d - 1 and bit 1 at 2d - 1 (and others, masked off, elsewhere); adding half of q2 flips the top bit.
template <class P> __device__ __forceinline__ uint32_t add_codeword_bits(uint32_t group, uint32_t bits) {
    constexpr uint32_t low = 1u << (P::d - 1), high = 1u << (2 * P::d - 1);
    return group ^ ((bits & 3) * (low + high / 2) & (low + high));
}

// E8Decoder finds the nearest codeword to eight values in [0, q2).
// With a = min(v, q2 - v) the squared distances to 0 and to q2/2 are c0 = a^2 and c1 = (q2/2 - a)^2, and
// c1 - c0 = q2/2 * (q2/2 - 2a): up to a common term and the factor q2/2, choosing 1 costs s = q2/2 - 2a and choosing 0
// nothing. All comparisons of the specification, ties included, are then comparisons of sums of s, |s| <= q2/2.
template <class P> struct E8Decoder {
    struct Choice { int32_t cost; uint32_t message; };   // message: m of the specification, one bit a pair

    // choose decides the four pairs, d[i] being the cost of m_i = 1 over m_i = 0, and mends an odd parity at the pair where
    // that costs least, the first of equals.
    static __device__ __forceinline__ Choice choose(const int32_t (&d)[4], int32_t cost) {
        uint32_t m = 0, least = ~0u;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t negative = static_cast<uint32_t>(d[i]) >> 31;
            m |= negative << i;
            cost += min(d[i], 0);
            least = min(least, static_cast<uint32_t>(max(d[i], -d[i])) << 2 | i);
        }
        const uint32_t odd = (m ^ m >> 1 ^ m >> 2 ^ m >> 3) & 1;
        m ^= odd << (least & 3);
        cost += static_cast<int32_t>(least >> 2 & (0u - odd));
        return {cost, m};
    }
    static __device__ __forceinline__ uint32_t decode(const uint32_t (&v)[8]) {
        int32_t s[8], same[4], different[4], evens = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) s[i] = static_cast<int32_t>(P::q2 / 2) - 2 * static_cast<int32_t>(min(v[i], P::q2 - v[i]));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            same[i] = s[2 * i] + s[2 * i + 1];        // r = 0: both coefficients of the pair flip
            different[i] = s[2 * i + 1] - s[2 * i];   // r = 1: the even one is flipped already
            evens += s[2 * i];
        }
        const Choice r0 = choose(same, 0), r1 = choose(different, evens);
        const uint32_t r = static_cast<uint32_t>(r1.cost - r0.cost) >> 31;
        const uint32_t m = r0.message ^ ((r0.message ^ r1.message) & (0u - r));
        return (((m ^ m << 1) & 3) | (m >> 1 & 4)) << 1 | r;
    }
};

// decode_message turns a polynomial, 16-bit pairs in shared memory (16-byte aligned) with values in [0, q2), into message
// bytes there (message_row of them, zero past the message). Whole warps, `size` threads: a lane decodes a block, two lanes
// make a byte.
template <class P> __device__ __forceinline__ void decode_message(const uint32_t *pairs, uint8_t *message, int rank, int size) {
#pragma unroll 1
    for (int b = rank; b < round_up(2 * P::message_row, warp_size); b += size) {
        uint32_t nibble = 0;
        if (b < P::blocks) {
            const uint4 four = reinterpret_cast<const uint4 *>(pairs)[b];
            const uint32_t v[8] = {four.x & 0xFFFF, four.x >> 16, four.y & 0xFFFF, four.y >> 16,
                                   four.z & 0xFFFF, four.z >> 16, four.w & 0xFFFF, four.w >> 16};
            nibble = E8Decoder<P>::decode(v);
        }
        const uint32_t upper = __shfl_xor_sync(all_lanes, nibble, 1);
        if (b % 2 == 0 && b < 2 * P::message_row) message[b / 2] = static_cast<uint8_t>(nibble | upper << 4);
    }
}

}   // namespace ctruprime
