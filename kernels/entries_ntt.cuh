// A set's products by the incomplete transform (_ntt).
#pragma once
#include "blockwise.cuh"
#include "entry.cuh"
#include "mul_ntt.cuh"

typedef ctruprime::Ntt<Set> Transform;

// The transform's tables: in global memory, since a warp's lanes read different entries.
__device__ const Transform::Tables ENTRY(ntt_tables) = Transform::make_tables();

#define PRODUCT_KERNEL(function, parameters, ...)                                      \
    ENTRY_KERNEL(__launch_bounds__(Transform::threads), function##_ntt, parameters, \
                 ctruprime::function<Set>(Transform{ENTRY(ntt_tables)}, __VA_ARGS__))
#include "products.cuh"
