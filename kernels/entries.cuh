// The kernels of one parameter set, under the names that kernels.go launches them by: this file is included once for each
// set, with SET defined to its n.
#pragma once
#include "decaps.cuh"
#include "keygen.cuh"

#define CTRUPRIME_JOIN(name, set) name##_##set
#define CTRUPRIME_NAME(name, set) CTRUPRIME_JOIN(name, set)
#define ENTRY(name) CTRUPRIME_NAME(name, SET)
#define REGISTER(name) REGISTER_KERNEL(name)

typedef ctruprime::Parameters<SET> Set;

#define ENTRY_KERNEL(bounds, name, parameters, arguments)                                \
    extern "C" __global__ void __launch_bounds__ bounds ENTRY(name) parameters {         \
        ctruprime::name<Set> arguments;                                                  \
    }                                                                                    \
    REGISTER(ENTRY(name))

ENTRY_KERNEL((128), encaps_hash,
             (const uint8_t *__restrict__ in, uint32_t in_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys, int n),
             (in, in_stride, messages, coins, keys, n));
ENTRY_KERNEL((128, 3), encaps_product,
             (const uint8_t *__restrict__ in, uint32_t in_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
              uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *__restrict__ status, int n),
             (in, in_stride, messages, coins, keys, out, out_stride, status, n));
ENTRY_KERNEL((128, 3), encaps_tile,
             (const uint8_t *__restrict__ in, uint32_t in_stride, uint8_t *messages, uint8_t *coins, uint8_t *keys,
              uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *__restrict__ status, int n),
             (in, in_stride, messages, coins, keys, out, out_stride, status, n));

#define SECRETS const uint8_t *__restrict__ secrets, uint32_t secret_stride, const uint32_t *__restrict__ index, uint32_t count
#define CIPHERTEXTS const uint8_t *__restrict__ ct, uint32_t ct_stride

ENTRY_KERNEL((128, 3), decaps_decrypt,
             (SECRETS, CIPHERTEXTS, uint8_t *messages, uint32_t *status, int n),
             (secrets, secret_stride, index, count, ct, ct_stride, messages, status, n));
ENTRY_KERNEL((128), decaps_hash,
             (SECRETS, CIPHERTEXTS, uint8_t *messages, uint8_t *coins, uint8_t *keys, uint8_t *rejects, int n),
             (secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, n));
ENTRY_KERNEL((128, 3), decaps_select,
             (SECRETS, CIPHERTEXTS, uint8_t *messages, uint8_t *coins, uint8_t *keys, uint8_t *rejects,
              uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *status, int n),
             (secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, out, out_stride, status, n));
ENTRY_KERNEL((128, 3), decaps_tile,
             (SECRETS, CIPHERTEXTS, uint8_t *messages, uint8_t *coins, uint8_t *keys, uint8_t *rejects,
              uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *status, int n),
             (secrets, secret_stride, index, count, ct, ct_stride, messages, coins, keys, rejects, out, out_stride, status, n));

ENTRY_KERNEL((128), keygen_hash, (const uint8_t *__restrict__ in, uint32_t in_stride, uint8_t *coins, int n), (in, in_stride, coins, n));
ENTRY_KERNEL((128, 3), keygen_pairs, (const uint8_t *__restrict__ coins, uint16_t *__restrict__ level, int pairs, int n), (coins, level, pairs, n));
ENTRY_KERNEL((128, 3), keygen_up, (const uint16_t *__restrict__ below, uint16_t *__restrict__ level, int rows), (below, level, rows));
ENTRY_KERNEL((ctruprime::Inversion<Set>::threads), keygen_inverse, (uint16_t *rows), (rows));
ENTRY_KERNEL((128, 3), keygen_down, (uint16_t *inverses, uint16_t *below, int parents), (inverses, below, parents));
ENTRY_KERNEL((128, 3), keygen_finish,
             (const uint8_t *__restrict__ in, uint32_t in_stride, uint8_t *coins, uint16_t *inverses, uint8_t *__restrict__ out,
              uint32_t out_stride, uint32_t *__restrict__ status, int n),
             (in, in_stride, coins, inverses, out, out_stride, status, n));
