// Inverses of many values for the price of one: Montgomery's trick across the threads of a block.
#pragma once
#include "lanes.cuh"

namespace batch_inverse {

// invert_columns replaces the first eight words of every column by the inverse. One warp does it for a block of any number of warps: a
// lane multiplies the values of its columns together, inverts the product, and takes the factors off again. No value may be
// zero. T has words w, a product by operator*, and an inverse by a function invert. Barriers are the caller's.
template <class T, int rows, int threads> __device__ __forceinline__ void invert_columns(lanes::Columns<rows, threads> &columns, int lane) {
    constexpr int each = threads / lanes::warp_size;
    T product[each], factor;   // product[m]: of the first m + 1 values
    lanes::get(columns, lane, product[0].w);
#pragma unroll
    for (int m = 1; m < each; m++) {
        lanes::get(columns, lane + lanes::warp_size * m, factor.w);
        product[m] = product[m - 1] * factor;
    }
    T inverse = invert(product[each - 1]);
#pragma unroll
    for (int m = each - 1; m > 0; m--) {
        lanes::get(columns, lane + lanes::warp_size * m, factor.w);
        lanes::put(columns, lane + lanes::warp_size * m, (inverse * product[m - 1]).w);
        inverse = inverse * factor;
    }
    lanes::put(columns, lane, inverse.w);
}

}   // namespace batch_inverse
