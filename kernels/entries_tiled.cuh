// A set's products by tiled matrix products in 64-bit integers (_tiled).
#pragma once
#include "blockwise.cuh"
#include "entry.cuh"
#include "mul_tiled.cuh"

typedef ctruprime::Tiled<Set> TiledProduct;

#define PRODUCT_KERNEL(function, parameters, ...)                                            \
    ENTRY_KERNEL(__launch_bounds__(TiledProduct::threads), function##_tiled, parameters, \
                 ctruprime::function<Set>(TiledProduct{}, __VA_ARGS__))
#include "products.cuh"
