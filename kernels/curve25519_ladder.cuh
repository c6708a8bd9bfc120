// X25519 of any point by Montgomery's ladder (RFC 7748, section 5), one ladder a thread or on four lanes. Every
// shape does the same 255 steps whatever the key; a bit of the key only makes masks.
//
// Between steps the ladder holds P2 = (X2 : Z2) and P3 = (X3 : Z3) = P2 + P, swapped if the last bit was 1. A step makes 2 P2 and
// P2 + P3 of the points that the RFC's conditional swap would have put in place. The sum is the same for either order
// (DA and CB change places, so DA - CB its sign, and it is squared), so only the point that is doubled is selected. The
// three lowest bits of a clamped key are 0: no swap is left at the end.
//
// status: 0, or 1 if the result is all zeros, which a protocol must refuse (RFC 7748, section 6.1).
#pragma once
#include "curve25519_batch.cuh"

namespace curve25519 {

constexpr int ladder_steps = 255;

// Swaps hands out, from the highest bit of the key down, whether a step swaps, as a mask.
template <int threads> struct Swaps {
    const lanes::Columns<words, threads> &key;
    int thread;
    uint32_t last = 0;

    __device__ __forceinline__ uint32_t at(int step) {
        const uint32_t bit = key[step / 32][thread] >> (step % 32) & 1, mask = 0u - (bit ^ last);
        last = bit;
        return mask;
    }
};

// finish stores X/Z, given the inverse of Z, or zero if that is zero.
__device__ __forceinline__ void finish(const Batch &batch, uint32_t *status, int i, const Tight &x, const Tight &z_inverse) {
    const Tight r = canonical(x * z_inverse);
    if (i < batch.n) {
        uint256::store(batch.output(i), r.w);
        status[i] = uint256::mask_of_zero(uint256::nonzero(r.w)) & 1;
    }
}

// ---- One ladder a thread ----

struct Ladder {
    Tight x2, z2, x3, z3;
};

__device__ __forceinline__ void step(Ladder &l, const Tight &x1, uint32_t swap) {
    const Loose a = l.x2 + l.z2, b = l.x2 - l.z2, c = l.x3 + l.z3, d = l.x3 - l.z3;
    const Loose sum = select(a, c, swap), difference = select(b, d, swap);   // of the point that is doubled
    const Tight da = d * a, cb = c * b;
    l.x3 = square(da + cb);
    l.z3 = square(da - cb) * x1;
    const Tight aa = square(sum), bb = square(difference);
    l.x2 = aa * bb;
    const Loose e = aa - bb;
    l.z2 = e * times_121666_plus(e, bb);
}

// ladder_thread works on operation `block` * threads + the thread's number.
template <int threads> __device__ __forceinline__ void ladder_thread(const Batch &batch, uint32_t *status, int block) {
    SHARED(uint32_t, columns, [words][threads]);
    const int thread = static_cast<int>(threadIdx.x), i = block * threads + thread;
    const uint8_t *in = batch.input(i);
    uint32_t key[words];
    load_scalar(in, key);
    lanes::put(columns, thread, key);
    const Tight x1 = load(in + coordinate_bytes);
    Ladder l = {constant(1), constant(0), x1, constant(1)};
    Swaps<threads> swaps = {columns, thread};
#pragma unroll 1
    for (int s = ladder_steps - 1; s >= 0; s--) step(l, x1, swaps.at(s));
    // Z = 0 stands for the point at infinity, whose u-coordinate is zero (section 5). One takes its place among the inverses.
    const uint32_t infinite = uint256::mask_of_zero(uint256::nonzero(canonical(l.z2).w));
    const Tight z_inverse = block_invert(select(l.z2, constant(1), infinite), columns, thread);
    lanes::wipe(columns, thread);
    finish(batch, status, i, l.x2, select(z_inverse, constant(0), infinite));
}

// ---- Four lanes a ladder: X2, Z2, X3, Z3 ----

// ladder_lanes4 works on the eight operations from 8 * block. A block is one warp.
__device__ __forceinline__ void ladder_lanes4(const Batch &batch, uint32_t *status, int block) {
    SHARED(uint32_t, columns, [words][lanes::warp_size]);
    const int lane = static_cast<int>(threadIdx.x), role = lane % 4, i = block * (lanes::warp_size / 4) + lane / 4;
    const uint8_t *in = batch.input(i);
    uint32_t key[words];
    load_scalar(in, key);
    lanes::put(columns, lane, key);
    const Tight x1 = load(in + coordinate_bytes);

    // A step is three rounds of four products. Roles are public, and so are these masks.
    const int neighbour = lane ^ 1, across = lane - role + (role < 2 ? 3 - role : role - 2);   // 3, 2, 0, 1
    const uint32_t doubles = lanes::mask_if(role < 2), odd = lanes::mask_if(role % 2 != 0), is_z2 = lanes::mask_if(role == 1), is_x2 = lanes::mask_if(role == 0);
    const uint32_t subtracts = lanes::mask_if(role == 1 || role == 2);
    const Tight small = constant(quarter_a_plus_2);

    Tight v = select(select(constant(1), constant(0), is_z2), x1, lanes::mask_if(role == 2));
    Swaps<lanes::warp_size> swaps = {columns, lane};
#pragma unroll 1
    for (int s = ladder_steps - 1; s >= 0; s--) {
        const uint32_t swap = swaps.at(s) & doubles;
        const Tight z = shuffle(v, neighbour);
        const Loose sum = add_or_subtract(select(v, z, is_z2), select(z, v, is_z2), subtracts);    // A, B, D, C
        const Loose far = shuffle(sum, across);                                              // C, D, A, B
        const Loose first = select(sum, far, swap);
        const Tight square_or_cross = first * select(far, first, doubles);                         // AA, BB, DA, CB
        const Tight other = shuffle(square_or_cross, neighbour);                                   // BB, AA, CB, DA
        const Tight left = select(square_or_cross, other, odd), right = select(other, square_or_cross, odd);
        const Loose e = add_or_subtract(left, right, odd);                                         // -, E, DA + CB, DA - CB
        const Tight second = select<Loose>(e, left, is_x2) * select<Loose>(select<Loose>(e, right, is_x2), small, is_z2);
        // second: AA BB = X2, 121666 E, X3, (DA - CB)^2. Last: E (BB + 121666 E) = Z2 and Z3.
        const Tight last = select<Loose>(second, e, is_z2) * select<Loose>(x1, square_or_cross + second, is_z2);
        v = select(second, last, odd);
    }
    lanes::wipe(columns, lane);
    const Tight x = shuffle(v, lane - role), z = shuffle(v, lane - role + 1);
    finish(batch, status, role == 0 ? i : batch.n, x, invert_by_four(z, lane));
}

}   // namespace curve25519
