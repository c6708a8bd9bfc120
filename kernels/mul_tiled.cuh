// Products in Z[x]/(x^n - x - 1) as tiled matrix products in 64-bit integers, one block a product: algorithm 1 of the Antelope
// paper (page 258), with bounds where the matrices are no multiple of the tile instead of padding in memory.
//
// The matrix form is that of mul_mma.cuh: c_(16*column + shift) = sum_t F[16*column + t] b_(shift - t), A(column, t) = F[16*column + t]
// being (n/16 + 1) x (n + 15) and B(t, shift) = b_(shift - t) being (n + 15) x 16. Tiles of both factors pass through shared memory; each
// thread of the 16 x 16 owns one element of a tile of C and sums it in a register. Sums are exact: at most 2n*q^2 < 2^38.
#pragma once
#include "codec.cuh"

namespace ctruprime {

template <class P> struct Tiled {
    static constexpr int tile = 16, threads = tile * tile;
    static constexpr int columns = P::n / tile + 1;      // rows of A: coefficients 0..n, the last to mend coefficient 0
    static constexpr int first_t = 1 - P::n, terms = P::n + tile - 1;

    struct Shared {
        int32_t a[tile][tile], b[tile][tile + 1];   // b by columns of B; the odd stride keeps a warp's stores on banks of their own
        int64_t row_n;
    };
    static constexpr int shared_bytes = round_up(sizeof(Shared), 16);

    // multiply calls put(i, coefficient i of left*right) once for each i < n, from whichever thread has it.
    template <class Left, class Right, class Put> static __device__ __forceinline__ void multiply(Left left, Right right, Put put, void *work) {
        Shared &s = *static_cast<Shared *>(work);
        const int thread = static_cast<int>(threadIdx.x), x = thread / tile, y = thread % tile;
        auto folded = [&](int d) -> int32_t {
            if (d > 0) return d < P::n ? left(d) : 0;
            if (d == 0) return left(0) + left(P::n - 1);
            return d > -P::n ? left(P::n + d) + left(P::n + d - 1) : 0;
        };
        int64_t first = 0;   // coefficient 0 without its correction is not needed: the thread that owns it waits for row n
#pragma unroll 1
        for (int top = 0; top < columns; top += tile) {
            int64_t sum = 0;
#pragma unroll 1
            for (int from = 0; from < terms; from += tile) {
                const int t = first_t + from;
                if (top + x < columns && from + y < terms) s.a[x][y] = folded(tile * (top + x) + t + y);
                if (from + y < terms) {
                    const int j = x - (t + y);
                    s.b[x][y] = j >= 0 && j < P::n ? right(j) : 0;
                }
                __syncthreads();
                const int count = min(tile, terms - from);
                if (top + x < columns)
                    for (int k = 0; k < count; k++) sum += static_cast<int64_t>(s.a[x][k]) * s.b[y][k];
                __syncthreads();
            }
            const int i = tile * (top + x) + y;
            if (i == P::n) s.row_n = sum;
            if (i > 0 && i < P::n) put(i, sum);
            if (i == 0) first = static_cast<int64_t>(left(0)) * right(0);
        }
        __syncthreads();
        if (thread == 0) put(0, first + s.row_n);
        __syncthreads();
    }

    // exact and residues are as Ntt's, without its bounds.
    template <class Left, class Right> __device__ __forceinline__ void exact(Left left, Right right, int32_t *out, void *work) const {
        multiply(left, right, [&](int i, int64_t c) { out[i] = static_cast<int32_t>(c); }, work);
    }
    template <int max_right, class Left, class Right>
    __device__ __forceinline__ void residues(Left left, Right right, uint32_t *out, int32_t *, void *work) const {
        // |c| < 2^38: shifted up by 2^38 - 2^38 mod q it is non-negative, and its upper word is below 2^7
        constexpr uint64_t up = (uint64_t{1} << 38) / P::q * P::q;
        constexpr uint32_t word = static_cast<uint32_t>((uint64_t{1} << 32) % P::q);
        multiply(left, right, [&](int i, int64_t c) {
            const uint64_t x = static_cast<uint64_t>(c) + up;
            out[i] = reduce_q<P>(reduce_q<P>(static_cast<uint32_t>(x)) + static_cast<uint32_t>(x >> 32) * word);
        }, work);
    }
};

}   // namespace ctruprime
