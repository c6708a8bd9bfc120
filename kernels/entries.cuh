// The kernels of one parameter set, under the names that kernels.go launches them by: this file is included once for each
// set, with SET defined to its n. A product's kernel is named for its multiplication, mma, ntt or tiled.
#pragma once
#include "blockwise.cuh"
#include "latency.cuh"
#include "mul_ntt.cuh"
#include "mul_tiled.cuh"

#define CTRUPRIME_JOIN(name, set) name##_##set
#define CTRUPRIME_NAME(name, set) CTRUPRIME_JOIN(name, set)
#define ENTRY(name) CTRUPRIME_NAME(name, SET)
#define REGISTER(name) REGISTER_KERNEL(name)

typedef ctruprime::Parameters<SET> Set;
typedef ctruprime::Ntt<Set> NttMultiplication;
typedef ctruprime::Tiled<Set> TiledMultiplication;

// The transform's tables: in global memory, since a warp's lanes read different entries.
__device__ const NttMultiplication::Tables ENTRY(ntt_tables) = NttMultiplication::make_tables();

constexpr int warps_block = 128;                        // threads of a block whose warps work on their own
#define WARPS __launch_bounds__(warps_block)
#define PRODUCTS __launch_bounds__(warps_block, 3)      // 168 registers a thread: what a product's accumulators and shifts take

// ENTRY_KERNEL defines and registers the entry `name` of the set, which calls `body`.
#define ENTRY_KERNEL(bounds, name, parameters, body)                   \
    extern "C" __global__ void bounds ENTRY(name) parameters { body; } \
    REGISTER(ENTRY(name))
// PRODUCT_KERNEL does so for each multiplication: `function` takes the multiplication first where a block has one product.
#define PRODUCT_KERNEL(function, parameters, ...)                                                                                      \
    ENTRY_KERNEL(PRODUCTS, function##_mma, parameters, ctruprime::function<Set>(__VA_ARGS__));                                         \
    ENTRY_KERNEL(__launch_bounds__(NttMultiplication::threads), function##_ntt, parameters,                                            \
                 ctruprime::function<Set>(NttMultiplication{ENTRY(ntt_tables)}, __VA_ARGS__));                                         \
    ENTRY_KERNEL(__launch_bounds__(TiledMultiplication::threads), function##_tiled, parameters,                                        \
                 ctruprime::function<Set>(TiledMultiplication{}, __VA_ARGS__))

// Parameters that belong together. What each means, its layout and who wipes it: encaps.cuh, decaps.cuh, keygen.cuh.
#define INPUT const uint8_t *__restrict__ in, uint32_t in_stride
#define OUTPUT uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *status
#define SCRATCH uint8_t *messages, uint8_t *coins, uint8_t *keys
#define SECRETS const uint8_t *__restrict__ secrets, uint32_t secret_stride, const uint32_t *__restrict__ index, uint32_t count
#define CIPHERTEXTS const uint8_t *__restrict__ ct, uint32_t ct_stride

ENTRY_KERNEL(WARPS, encaps_hash, (INPUT, SCRATCH, int n), ctruprime::encaps_hash<Set>(in, in_stride, messages, coins, keys, n));
PRODUCT_KERNEL(encaps_product, (INPUT, SCRATCH, OUTPUT, int n), in, in_stride, messages, coins, keys, out, out_stride, status, n);
ENTRY_KERNEL(PRODUCTS, encaps_tile, (INPUT, SCRATCH, OUTPUT, int n),
             ctruprime::encaps_tile<Set>(in, in_stride, messages, coins, keys, out, out_stride, status, n));
ENTRY_KERNEL(WARPS, encaps_hash_warp, (INPUT, SCRATCH, int n), ctruprime::encaps_hash_warp<Set>(in, in_stride, messages, coins, keys, n));
ENTRY_KERNEL(WARPS, encaps_one, (INPUT, OUTPUT), ctruprime::encaps_one<Set>(in, in_stride, out, out_stride, status));

PRODUCT_KERNEL(decaps_decrypt, (SECRETS, CIPHERTEXTS, uint8_t *messages, uint32_t *status, int n), secrets, secret_stride, index, count,
               ct, ct_stride, messages, status, n);
ENTRY_KERNEL(WARPS, decaps_hash, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, int n),
             ctruprime::decaps_hash<Set>(secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, n));
PRODUCT_KERNEL(decaps_select, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, OUTPUT, int n), secrets, secret_stride, index, count,
               ct, ct_stride, messages, coins, keys, rejects, out, out_stride, status, n);
ENTRY_KERNEL(PRODUCTS, decaps_tile, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, OUTPUT, int n),
             ctruprime::decaps_tile<Set>(secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, out,
                                         out_stride, status, n));
ENTRY_KERNEL(__launch_bounds__(ctruprime::warp_size), decaps_hash_warp, (SECRETS, CIPHERTEXTS, SCRATCH, uint8_t *rejects, int n),
             ctruprime::decaps_hash_warp<Set>(secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, n));
ENTRY_KERNEL(__launch_bounds__(warps_block + ctruprime::warp_size), decaps_one, (SECRETS, CIPHERTEXTS, OUTPUT),
             ctruprime::decaps_one<Set>(secrets, secret_stride, index, count, ct, ct_stride, out, out_stride, status));

ENTRY_KERNEL(WARPS, keygen_hash, (INPUT, uint8_t *coins, int n), ctruprime::keygen_hash<Set>(in, in_stride, coins, n));
ENTRY_KERNEL(WARPS, keygen_hash_warp, (INPUT, uint8_t *coins, int n), ctruprime::keygen_hash_warp<Set>(in, in_stride, coins, n));
PRODUCT_KERNEL(keygen_pairs, (const uint8_t *__restrict__ coins, uint16_t *__restrict__ level, int pairs, int n), coins, level, pairs, n);
PRODUCT_KERNEL(keygen_up, (const uint16_t *__restrict__ below, uint16_t *__restrict__ level, int rows), below, level, rows);
ENTRY_KERNEL(__launch_bounds__(ctruprime::Inversion<Set>::threads), keygen_inverse, (uint16_t *rows), ctruprime::keygen_inverse<Set>(rows));
PRODUCT_KERNEL(keygen_down, (uint16_t *inverses, uint16_t *below, int parents), inverses, below, parents);
PRODUCT_KERNEL(keygen_finish, (INPUT, uint8_t *coins, uint16_t *inverses, OUTPUT, int n), in, in_stride, coins, inverses, out,
               out_stride, status, n);
