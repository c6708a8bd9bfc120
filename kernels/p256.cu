// ECDSA on P-256: every kernel, one entry for each shape. A batch is signed into scratch memory and then checked, in two
// launches; p256.go says how. Rows, status and what is secret: p256_sign.cuh and p256_check.cuh.
#include "p256_check.cuh"
#include "p256_sign.cuh"

using namespace p256;

constexpr int block_threads = 128;                    // of the shapes with one operation a thread
#define THREADS __launch_bounds__(block_threads, 4)   // blocks a multiprocessor: 128 registers a thread
#define WARP __launch_bounds__(lanes::warp_size)

#define INPUT const uint8_t *__restrict__ in, uint32_t in_stride, uint8_t *__restrict__ signatures
#define OUTPUT uint8_t *__restrict__ out, uint32_t out_stride, uint32_t *__restrict__ status
#define BLOCK static_cast<int>(blockIdx.x)

#define SIGN(bounds, shape, body)                                                                                      \
    extern "C" __global__ void bounds p256_sign_##shape(INPUT, const uint8_t *__restrict__ key, int n) {                \
        body(Signing{in, in_stride, key, signatures, n}, BLOCK);                                                       \
    }                                                                                                                  \
    REGISTER_KERNEL(p256_sign_##shape)
#define CHECK(bounds, shape, body)                                                                                     \
    extern "C" __global__ void bounds p256_check_##shape(INPUT, const uint32_t *__restrict__ public_table, OUTPUT, int n) { \
        body(Checking{Signing{in, in_stride, nullptr, signatures, n}, public_table, out, out_stride, status}, BLOCK);  \
    }                                                                                                                  \
    REGISTER_KERNEL(p256_check_##shape)

SIGN(THREADS, thread, sign_thread<block_threads>);
SIGN(WARP, lanes8, sign_lanes8);
CHECK(THREADS, thread, check_thread<block_threads>);
CHECK(WARP, lanes16, check_lanes16);
