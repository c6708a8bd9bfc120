// Small things that kernels with one or a few lanes an operation share: masks, and words in shared memory.
#pragma once
#include "device/device.h"

namespace lanes {

constexpr int warp_size = 32;
constexpr uint32_t all = 0xffffffffu;

// mask_if gives all ones if a public condition holds, else zero.
__device__ __forceinline__ uint32_t mask_if(bool condition) { return condition ? ~0u : 0u; }

// choose gives b for a mask of all ones, a for zero. The mask may be secret: this is one logical instruction, and no compiler
// sees a condition that it could turn into a branch.
__device__ __forceinline__ uint32_t choose(uint32_t a, uint32_t b, uint32_t mask) {
    constexpr int b_if_c_else_a = 0xD8;   // PTX's table for the bits (a, b, c)
    return lop3<b_if_c_else_a>(a, b, mask);
}

// Columns are words in shared memory, `rows` of them for each thread. Indices are public; neighbours lie in neighbouring banks.
template <int rows, int threads> using Columns = uint32_t[rows][threads];

template <int n, int rows, int threads>
__device__ __forceinline__ void put(Columns<rows, threads> &columns, int thread, const uint32_t (&w)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++) columns[i][thread] = w[i];
}
template <int n, int rows, int threads>
__device__ __forceinline__ void get(const Columns<rows, threads> &columns, int thread, uint32_t (&w)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++) w[i] = columns[i][thread];
}
template <int rows, int threads> __device__ __forceinline__ void wipe(Columns<rows, threads> &columns, int thread) {
#pragma unroll
    for (int i = 0; i < rows; i++) columns[i][thread] = 0;
}

// wipe_words clears n words that a warp shares.
__device__ __forceinline__ void wipe_words(uint32_t *w, int n, int lane) {
    for (int k = lane; k < n; k += warp_size) w[k] = 0;
}

// shuffle gives what lane `from` holds.
template <class T> __device__ __forceinline__ T shuffle(const T &a, int from) {
    T r;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof a.w / sizeof a.w[0]); i++) r.w[i] = __shfl_sync(all, a.w[i], from);
    return r;
}

// select is choose for a type whose value is its words w.
template <class T> __device__ __forceinline__ T select(const T &a, const T &b, uint32_t mask) {
    T r;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof a.w / sizeof a.w[0]); i++) r.w[i] = choose(a.w[i], b.w[i], mask);
    return r;
}

}   // namespace lanes
