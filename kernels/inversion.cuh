// Inversion in R_q: Bernstein and Yang's division steps ("Fast constant-time gcd computation and modular inversion", TCHES
// 2019, section 6), one polynomial a block.
//
// With f = x^n - x - 1 and g the operand, both reversed, 2n - 1 steps
//
//   v <- x v;  if delta > 0 and g_0 != 0: swap (f, g), (v, r), delta <- -delta;
//   delta <- delta + 1;  g <- (f_0 g - g_0 f)/x;  r <- f_0 r - g_0 v
//
// from v = 0, r = 1, delta = 1 end with g = 0 and f constant (R_q is a field: the operand has an inverse unless it is 0), and
// the reversed v divided by f_0 is the inverse. The number of steps and everything they touch is fixed; the swap is a select.
// After a swap the new g is f_0 g - g_0 f in the old names with its sign changed: the sign goes into the two scalars, so
// only f and v have to be selected.
#pragma once
#include "codec.cuh"

namespace ctruprime {

template <class P> struct Inversion {
    static constexpr int threads = 256, warps = threads / warp_size;
    static constexpr int own = ceil_div(P::n + 1, threads);   // coefficients a thread
    static constexpr int steps = 2 * P::n - 1;

    // centred gives r = t mod q with |r| <= q/2 + 32 for |t| <= 2*(q/2 + 32)^2 < 2^25: M = round(2^32/q) is off by at most 1/2,
    // which moves the quotient of t by at most |t|/2^33 and so the remainder by |t|*q/2^33 < 32.
    static __device__ __forceinline__ int32_t centred(int32_t t) {
        constexpr int32_t reciprocal = static_cast<int32_t>(((uint64_t{1} << 32) + P::q / 2) / P::q);
        static_assert(2 * (P::q / 2 + 32) * (P::q / 2 + 32) < 1 << 25 && (int64_t{1} << 25) * P::q >> 33 < 32, "the bound reproduces itself");
        return t - __mulhi(t + P::q / 2, reciprocal) * P::q;
    }

    // What a step needs of other warps, for two steps by turns so that one barrier a step is enough.
    struct Borders {
        int32_t first_f[2][warps + 1], first_g[2][warps + 1];   // coefficient 0 of each warp; nothing follows the last
        int32_t last_v[2][warps];
    };

    // inverse of row `in` to row `out`: padded residues of 16 bits in [0, q), `in` not 0. All threads of a block call it.
    static __device__ __forceinline__ void inverse(const uint16_t *in, uint16_t *out, Borders &borders, int32_t *result, int32_t &constant) {
        const int thread = static_cast<int>(threadIdx.x), lane = thread % warp_size, warp = thread / warp_size;
        int32_t f[own], g[own], v[own], r[own], delta = 1;
#pragma unroll
        for (int j = 0; j < own; j++) {
            const int i = own * thread + j;
            f[j] = i == 0 ? 1 : i == P::n - 1 || i == P::n ? -1 : 0;   // reversed x^n - x - 1
            g[j] = i < P::n ? centre_q<P>(in[P::n - 1 - i]) : 0;
            v[j] = 0;
            r[j] = i == 0 ? 1 : 0;
        }
        if (thread < 2) borders.first_f[thread][warps] = borders.first_g[thread][warps] = 0;
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
            const int turn = step % 2;
            if (lane == 0) borders.first_f[turn][warp] = f[0], borders.first_g[turn][warp] = g[0];
            if (lane == warp_size - 1) borders.last_v[turn][warp] = v[own - 1];
            int32_t before_v = __shfl_up_sync(all_lanes, v[own - 1], 1u);
            int32_t next_f = __shfl_down_sync(all_lanes, f[0], 1u), next_g = __shfl_down_sync(all_lanes, g[0], 1u);
            __syncthreads();
            const int32_t f0 = borders.first_f[turn][0], g0 = borders.first_g[turn][0];
            if (lane == 0) before_v = warp == 0 ? 0 : borders.last_v[turn][warp == 0 ? 0 : warp - 1];
            if (lane == warp_size - 1) next_f = borders.first_f[turn][warp + 1], next_g = borders.first_g[turn][warp + 1];
#pragma unroll
            for (int j = own - 1; j > 0; j--) v[j] = v[j - 1];
            v[0] = before_v;
            // swap is all ones if delta > 0 and g_0 != 0
            const int32_t swap = ((-delta) >> 31) & ((g0 | -g0) >> 31);
            delta = ((delta ^ swap) - swap) + 1;
            const int32_t a = (f0 ^ swap) - swap, b = (g0 ^ swap) - swap;
            int32_t new_g[own + 1];
#pragma unroll
            for (int j = 0; j < own; j++) {
                new_g[j] = centred(a * g[j] - b * f[j]);
                const int32_t new_r = centred(a * r[j] - b * v[j]);
                f[j] ^= (f[j] ^ g[j]) & swap;
                v[j] ^= (v[j] ^ r[j]) & swap;
                r[j] = new_r;
            }
            new_g[own] = thread == threads - 1 ? 0 : centred(a * next_g - b * next_f);
#pragma unroll
            for (int j = 0; j < own; j++) g[j] = new_g[j + 1];
        }
        if (thread == 0) constant = f[0];
#pragma unroll
        for (int j = 0; j < own; j++)
            if (own * thread + j < P::n) result[P::n - 1 - (own * thread + j)] = v[j];
        __syncthreads();
        const int32_t scale = reciprocal(constant);
        for (int i = thread; i < P::padded; i += threads) {
            const int32_t c = i < P::n ? centred(scale * result[i]) : 0;
            out[i] = static_cast<uint16_t>(c < 0 ? c + P::q : c);
        }
    }

    // reciprocal is x^(q-2) mod q; the exponent is public.
    static __device__ __forceinline__ int32_t reciprocal(int32_t x) {
        int32_t power = 1;
#pragma unroll 1
        for (int bit = 31 - __clz(P::q - 2); bit >= 0; bit--) {
            power = centred(power * power);
            if ((P::q - 2) >> bit & 1) power = centred(power * x);
        }
        return power;
    }
};

// keygen_inverse: one row a block of Inversion::threads threads, in place.
template <class P> __device__ __forceinline__ void keygen_inverse(uint16_t *rows) {
    SHARED(typename Inversion<P>::Borders, borders);
    SHARED(int32_t, result, [P::padded]);
    SHARED(int32_t, constant);
    uint16_t *row = rows + static_cast<size_t>(blockIdx.x) * P::padded;
    Inversion<P>::inverse(row, row, borders, result, constant);
}

}   // namespace ctruprime
