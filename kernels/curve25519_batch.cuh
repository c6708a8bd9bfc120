// What all shapes of X25519 share: rows of a batch, and inverses for a whole block.
//
//   in    private key || u-coordinate, or for a fixed base the private key alone
//   out   the result's u-coordinate
//
// 32 bytes each, encoded as RFC 7748 says. Rows start at multiples of a stride; base and stride are multiples of 16.
// Nobody wipes rows here but the caller. Shared memory that held secrets is cleared before a block ends.
#pragma once
#include "batch_inverse.cuh"
#include "curve25519_field.cuh"

namespace curve25519 {

using lanes::shuffle;

constexpr int coordinate_bytes = 32;

struct Batch {
    const uint8_t *in;
    uint32_t in_stride;
    uint8_t *out;
    uint32_t out_stride;
    int n;

    // input gives row i, or the last one for the threads beyond it, which work along and store nothing.
    __device__ __forceinline__ const uint8_t *input(int i) const { return in + static_cast<size_t>(min(i, n - 1)) * in_stride; }
    __device__ __forceinline__ uint8_t *output(int i) const { return out + static_cast<size_t>(i) * out_stride; }
};

// block_invert inverts one value a thread, none of them zero, and leaves the columns with the inverses.
template <int rows, int threads> __device__ __forceinline__ Tight block_invert(const Tight &z, lanes::Columns<rows, threads> &columns, int thread) {
    lanes::put(columns, thread, z.w);
    __syncthreads();
    if (thread < lanes::warp_size) batch_inverse::invert_columns<Tight>(columns, thread);
    __syncthreads();
    Tight r;
    lanes::get(columns, thread, r.w);
    return r;
}

}   // namespace curve25519
