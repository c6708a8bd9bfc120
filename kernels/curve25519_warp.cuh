// X25519 of any point, one ladder a warp: the shape for few operations. The ladder itself is that of curve25519_ladder.cuh.
//
// Four groups of eight lanes hold X2, Z2, X3 and Z3 and compute the four products of each of a step's three rounds. A number
// is ten limbs of 26 and 25 bits in turn, limb i of weight 2^ceil(25.5 i): small enough that a column of a product is a
// sum of 64-bit numbers without carries. Lane j < 5 of a group owns limbs 2j and 2j + 1 and computes both columns, reading
// the factors from shared memory; lanes 5, 6 and 7 compute what 0, 1 and 2 do and write nothing.
#pragma once
#include "curve25519_ladder.cuh"

namespace curve25519 {

constexpr int limbs = 10, owners = limbs / 2, group_size = 8, groups = lanes::warp_size / group_size;
constexpr int even_bits = 26, odd_bits = 25;
constexpr uint32_t even_mask = (1u << even_bits) - 1, odd_mask = (1u << odd_bits) - 1;

// Limbs are the two limbs of a lane. Bounds, for the even and the odd one:
//   product       2^26          2^25 + 2^16
//   sum of two    2^27          2^26 + 2^17
//   difference    2^27 + 2^26   2^26 + 2^25 + 2^16, as a - b + 2p
// Factors are sums, differences and products; 19 times a limb is below 2^32.
struct Limbs {
    uint32_t even, odd;
};

__device__ __forceinline__ Limbs operator+(const Limbs &a, const Limbs &b) { return {a.even + b.even, a.odd + b.odd}; }
__device__ __forceinline__ Limbs operator^(const Limbs &a, uint32_t mask) { return {a.even ^ mask, a.odd ^ mask}; }
__device__ __forceinline__ Limbs operator&(const Limbs &a, uint32_t mask) { return {a.even & mask, a.odd & mask}; }

__device__ __forceinline__ Limbs choose(const Limbs &a, const Limbs &b, uint32_t mask) {
    return {lanes::choose(a.even, b.even, mask), lanes::choose(a.odd, b.odd, mask)};
}

// from_group gives what the lane in the same place of another group holds: its number is the own one XOR `distance`.
__device__ __forceinline__ Limbs from_group(const Limbs &a, int distance) {
    return {__shfl_xor_sync(lanes::all, a.even, group_size * distance), __shfl_xor_sync(lanes::all, a.odd, group_size * distance)};
}

// Exchange is the shared memory of one round's products: for each group the left factor, and the right one behind 19 times
// itself. Row lengths keep rows aligned to 16 and 8 bytes and a half warp's accesses in different banks.
struct __align__(16) Exchange {
    uint32_t left[groups][16];
    uint32_t right[groups][2 * limbs];
};

// Place is where a lane stands.
struct Place {
    int lane, group, pair;   // pair: of limbs, 0 to 4
    bool owner;
    int below;               // the lane whose carry this one takes
    uint32_t wrap;           // what the carry counts here: that of the highest limb is 2^255 = 19
    __device__ __forceinline__ explicit Place(int lane) : lane(lane), group(lane / group_size) {
        const int place = lane % group_size;
        owner = place < owners;
        pair = owner ? place : place - owners;
        below = lane - place + (pair + owners - 1) % owners;
        wrap = pair == 0 ? fold : 1;
    }
    // bit is the weight of limb 2 * pair.
    __device__ __forceinline__ int bit() const { return (even_bits + odd_bits) * pair; }
};

// multiply gives a * b in each group. Column c is the sum of a[i] b[c - i], where b[k - 10] for k < 10 stands for 19 b[k], and
// counts twice where i and c - i are both odd: the weights of two odd limbs exceed their column's by one bit. By the bounds
// above an even column is below 19 * 5 * (3 * 2^26)^2 * (1 + 1/2) < 2^63 and an odd one below 2^62; carries
// are below 2^37, so below 2^42 where they wrap, and what that leaves to carry on from an even limb is below 2^16.
__device__ __forceinline__ Limbs multiply(const Place &place, Exchange &exchange, const Limbs &a, const Limbs &b) {
    uint32_t *left = exchange.left[place.group], *right = exchange.right[place.group];
    const int column = 2 * place.pair;
    if (place.owner) {
        *reinterpret_cast<uint2 *>(left + column) = make_uint2(a.even, a.odd);
        *reinterpret_cast<uint2 *>(right + column) = make_uint2(fold * b.even, fold * b.odd);
        *reinterpret_cast<uint2 *>(right + limbs + column) = make_uint2(b.even, b.odd);
    }
    __syncwarp();
    uint32_t x[limbs], y[limbs + 2];   // y[k] is b[column + k - 10]
#pragma unroll
    for (int k = 0; k < limbs; k += 2) {
        const uint2 two = *reinterpret_cast<const uint2 *>(left + k);
        x[k] = two.x, x[k + 1] = two.y;
    }
#pragma unroll
    for (int k = 0; k < limbs + 2; k += 2) {
        const uint2 two = *reinterpret_cast<const uint2 *>(right + column + k);
        y[k] = two.x, y[k + 1] = two.y;
    }
    uint64_t evens = 0, odds = 0, even_odd = 0, odd_even = 0;
#pragma unroll
    for (int i = 0; i < limbs; i += 2) {
        evens += static_cast<uint64_t>(x[i]) * y[limbs - i];
        odds += static_cast<uint64_t>(x[i + 1]) * y[limbs - 1 - i];
        even_odd += static_cast<uint64_t>(x[i]) * y[limbs + 1 - i];
        odd_even += static_cast<uint64_t>(x[i + 1]) * y[limbs - i];
    }
    const uint64_t first = evens + 2 * odds, second = even_odd + odd_even + (first >> even_bits), carry = second >> odd_bits;
    const uint32_t low = __shfl_sync(lanes::all, static_cast<uint32_t>(carry), place.below);
    const uint32_t high = __shfl_sync(lanes::all, static_cast<uint32_t>(carry >> 32), place.below);
    const uint64_t sum = static_cast<uint64_t>(low) * place.wrap + (static_cast<uint32_t>(first) & even_mask) + (static_cast<uint64_t>(high * place.wrap) << 32);
    return {static_cast<uint32_t>(sum) & even_mask, (static_cast<uint32_t>(second) & odd_mask) + static_cast<uint32_t>(sum >> even_bits)};
}

// split gives the calling lane's limbs of a number whose eight words lie in lanes 0 to 7, the other lanes holding zero.
__device__ __forceinline__ Limbs split(const Place &place, uint32_t word) {
    const int first = place.bit() / 32, shift = place.bit() % 32;
    uint32_t w[3];
#pragma unroll
    for (int i = 0; i < 3; i++) w[i] = __shfl_sync(lanes::all, word, first + i);
    const uint32_t low = __funnelshift_r(w[0], w[1], shift), high = __funnelshift_r(w[1], w[2], shift);
    return {low & even_mask, __funnelshift_r(low, high, even_bits) & odd_mask};
}

// join gives the number whose limbs lie in shared memory. Limbs may exceed their width by what a product's do: the whole is
// below 2^255 + 2^247.
__device__ __forceinline__ Loose join(const uint32_t *limb) {
    Loose r;
    uint64_t held = 0;
    int word = 0;
#pragma unroll
    for (int i = 0; i < limbs; i++) {
        const int bit = (even_bits + odd_bits) * (i / 2) + even_bits * (i % 2);   // the weight of limb i
        if (bit - 32 * word >= 32) {
            r.w[word++] = static_cast<uint32_t>(held);
            held >>= 32;
        }
        held += static_cast<uint64_t>(limb[i]) << (bit - 32 * word);
    }
    r.w[word] = static_cast<uint32_t>(held);
    return r;
}

// Formula is p + q, p - q or q - p, the same instructions for each: (p XOR m) + (q XOR n) + k, where a mask of all ones makes
// -p - 1 of p, and k adds 2p + 1 (of the modulus) then.
struct Formula {
    uint32_t negates_p, negates_q;
    Limbs constant;
    __device__ __forceinline__ Formula(const Place &place, bool minus_p, bool minus_q) : negates_p(lanes::mask_if(minus_p)), negates_q(lanes::mask_if(minus_q)) {
        const Limbs twice_p_plus_1 = {2 * (even_mask - (place.pair == 0 ? fold - 1 : 0)) + 1, 2 * odd_mask + 1};
        constant = twice_p_plus_1 & (negates_p | negates_q);
    }
    __device__ __forceinline__ Limbs operator()(const Limbs &p, const Limbs &q) const { return (p ^ negates_p) + (q ^ negates_q) + constant; }
};

// ladder_warp works on operation i < n. A block is one warp.
__device__ __forceinline__ void ladder_warp(const Batch &batch, uint32_t *status, int i) {
    SHARED(Exchange, exchange, [3]);   // one a round: nobody writes what another lane may still be reading
    const Place place(static_cast<int>(threadIdx.x));
    const uint32_t *in = reinterpret_cast<const uint32_t *>(batch.input(i));
    uint32_t key = place.lane < words ? in[place.lane] : 0, u = place.lane < words ? in[words + place.lane] : 0;
    clamp(place.lane, key);
    u &= place.lane == words - 1 ? below_255 : ~0u;
    const Limbs x1 = split(place, u);

    const int group = place.group;
    const uint32_t doubles = lanes::mask_if(group < 2), odd = lanes::mask_if(group % 2 != 0), is_z2 = lanes::mask_if(group == 1), is_x2 = lanes::mask_if(group == 0);
    const Formula doubled(place, group == 1, group == 2), other(place, group == 3, false), mixed(place, false, odd != 0);
    const Limbs one = {place.pair == 0 ? 1u : 0u, 0}, small = {place.pair == 0 ? quarter_a_plus_2 : 0, 0};
    Limbs v = choose(one & ~is_z2, x1, lanes::mask_if(group == 2));
    uint32_t last = 0;
#pragma unroll 1
    for (int s = ladder_steps - 1; s >= 0; s--) {
        const uint32_t bit = __shfl_sync(lanes::all, key, s / 32) >> (s % 32) & 1, swap = (0u - (bit ^ last)) & doubles;
        last = bit;
        // Groups 0 and 1: the sum and the difference of the point to double. 2: D and A; 3: C and B.
        const Limbs beside = from_group(v, 1), across = from_group(v, 2), opposite = from_group(v, 3);
        const Limbs a = doubled(choose(v, across, swap), choose(beside, opposite, swap));
        const Limbs square_or_cross = multiply(place, exchange[0], a, choose(other(across, opposite), a, doubles));   // AA, BB, DA, CB
        const Limbs partner = from_group(square_or_cross, 1);                                                         // BB, AA, CB, DA
        const Limbs e = mixed(partner, square_or_cross);                                                              // -, E, DA + CB, DA - CB
        const Limbs second = multiply(place, exchange[1], choose(choose(e, square_or_cross, is_x2), small, is_z2), choose(e, partner, is_x2));
        // second: AA BB = X2, 121666 E, X3, (DA - CB)^2. Last: (BB + 121666 E) E = Z2 and Z3.
        const Limbs third = multiply(place, exchange[2], second + (square_or_cross & is_z2), choose(x1, e, is_z2));
        v = choose(second, third, odd);
    }

    uint32_t *limb = exchange[0].left[group];
    if (place.owner) *reinterpret_cast<uint2 *>(limb + 2 * place.pair) = make_uint2(v.even, v.odd);
    __syncwarp();
    const Tight x = tighten(join(exchange[0].left[0])), z = tighten(join(exchange[0].left[1]));
    __syncwarp();
    lanes::wipe_words(reinterpret_cast<uint32_t *>(exchange), sizeof exchange / 4, place.lane);
    finish(batch, status, place.lane == 0 ? i : batch.n, x, invert_by_four(z, place.lane));
}

}   // namespace curve25519
