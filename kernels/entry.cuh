// What every file of kernels begins with. SET is the set's n; a kernel's entry is its name and the set's, joined by an underscore.
#pragma once
#include "params.cuh"

#define CTRUPRIME_JOIN(name, set) name##_##set
#define CTRUPRIME_NAME(name, set) CTRUPRIME_JOIN(name, set)
#define ENTRY(name) CTRUPRIME_NAME(name, SET)
#define REGISTER(name) REGISTER_KERNEL(name)

typedef ctruprime::Parameters<SET> Set;

// ENTRY_KERNEL defines and registers the entry `name` of the set, which calls `body`.
#define ENTRY_KERNEL(bounds, name, parameters, body)                   \
    extern "C" __global__ void bounds ENTRY(name) parameters { body; } \
    REGISTER(ENTRY(name))

// Parameters that belong together. What each means, its layout and who wipes it: encaps.cuh, decaps.cuh, keygen.cuh.
#define PUBLICS const uint8_t *__restrict__ pk, uint32_t pk_stride
#define SEEDS const uint8_t *__restrict__ seeds, uint32_t seed_stride
#define INPUT const uint8_t *__restrict__ in, uint32_t in_stride
#define OUTPUT uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *status
#define SCRATCH uint8_t *messages, uint8_t *coins, uint8_t *keys
#define SECRETS const uint8_t *__restrict__ secrets, uint32_t secret_stride, const uint32_t *__restrict__ index, uint32_t count
#define CIPHERTEXTS const uint8_t *__restrict__ ct, uint32_t ct_stride
