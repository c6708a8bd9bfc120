// A set's kernels under the names that kernels.go launches them by: hashes, inversion, whole operations, and the products on
// the Tensor Cores (_mma).
#pragma once
#include "decaps.cuh"
#include "encaps.cuh"
#include "entry.cuh"
#include "keygen.cuh"
#include "latency.cuh"
#include "shared_key.cuh"

constexpr int warps_block = 128;                     // threads of a block whose warps work on their own
#define WARPS __launch_bounds__(warps_block)
#define PRODUCTS __launch_bounds__(warps_block, 3)   // 168 registers a thread: what a product's accumulators and shifts take

#define PRODUCT_KERNEL(function, parameters, ...) ENTRY_KERNEL(PRODUCTS, function##_mma, parameters, ctruprime::function<Set>(__VA_ARGS__))
#include "products.cuh"

ENTRY_KERNEL(WARPS, encaps_hash, (PUBLICS, SEEDS, SCRATCH, int n),
             ctruprime::encaps_hash<Set>(pk, pk_stride, seeds, seed_stride, messages, coins, keys, n));
ENTRY_KERNEL(WARPS, encaps_hash_warp, (PUBLICS, SEEDS, SCRATCH, int n),
             ctruprime::encaps_hash_warp<Set>(pk, pk_stride, seeds, seed_stride, messages, coins, keys, n));
ENTRY_KERNEL(WARPS, encaps_one, (PUBLICS, SEEDS, OUTPUT), ctruprime::encaps_one<Set>(pk, pk_stride, seeds, seed_stride, out, out_stride, status));
ENTRY_KERNEL(PRODUCTS, encaps_shared, (const uint8_t *__restrict__ pk, SCRATCH, OUTPUT, int n),
             ctruprime::encaps_shared<Set>(pk, messages, coins, keys, out, out_stride, status, n));

ENTRY_KERNEL(__launch_bounds__(3 * warps_block, 1), decaps_open, (SECRETS, CIPHERTEXTS, uint8_t *messages, uint8_t *rejects, uint32_t *status, int n),
             ctruprime::decaps_open<Set>(secrets, secret_stride, index, count, ct, ct_stride, messages, rejects, status, n));
ENTRY_KERNEL(WARPS, decaps_hash, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, int n, int first),
             ctruprime::decaps_hash<Set>(secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, n, first));
ENTRY_KERNEL(__launch_bounds__(ctruprime::warp_size), decaps_hash_warp, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, int n),
             ctruprime::decaps_hash_warp<Set>(secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, n));
ENTRY_KERNEL(__launch_bounds__(warps_block + ctruprime::warp_size), decaps_one, (SECRETS, CIPHERTEXTS, OUTPUT),
             ctruprime::decaps_one<Set>(secrets, secret_stride, index, count, ct, ct_stride, out, out_stride, status));

ENTRY_KERNEL(WARPS, keygen_hash, (INPUT, uint8_t *coins, int n), ctruprime::keygen_hash<Set>(in, in_stride, coins, n));
ENTRY_KERNEL(WARPS, keygen_hash_warp, (INPUT, uint8_t *coins, int n), ctruprime::keygen_hash_warp<Set>(in, in_stride, coins, n));
ENTRY_KERNEL(__launch_bounds__(ctruprime::Inversion<Set>::threads), keygen_inverse, (uint16_t *rows), ctruprime::keygen_inverse<Set>(rows));
