// A set's products by the incomplete transform (_ntt).
#pragma once
#include "blockwise.cuh"
#include "entry.cuh"
#include "mul_ntt.cuh"

typedef ctruprime::Ntt<Set> Transform;

// The transform's tables: in global memory, since a warp's lanes read different entries. Nothing writes to them, but were they const,
// clang would put them into constant memory, which serves a warp one entry at a time: that took 1.7 times as long.
__device__ Transform::Tables ENTRY(ntt_tables) = Transform::make_tables();

#define PRODUCT_KERNEL(function, parameters, ...)                                      \
    ENTRY_KERNEL(__launch_bounds__(Transform::threads), function##_ntt, parameters, \
                 ctruprime::function<Set>(Transform{ENTRY(ntt_tables)}, __VA_ARGS__))
#include "products.cuh"
