// X25519 (RFC 7748): one kernel for each shape. Shapes compute the same; the number of operations decides which is fastest
// (curve25519.go). Blocks 0 .. ladders - 1 make shared secrets, the others public keys, so that a launch does either or both:
//
//   in       private key || u     or, for public keys alone, private key
//   publics  public key
//   secrets  shared secret
//   status   a word for each shared secret: 1 if it is all zeros, else 0
//
// 32 bytes each; rows and alignment: curve25519_batch.cuh. Ladders come first since they take longer.
#include "curve25519_base.cuh"
#include "curve25519_ladder.cuh"
#include "curve25519_warp.cuh"

using namespace curve25519;

constexpr int block_threads = 128;   // of the shape with one operation a thread
#define THREADS __launch_bounds__(block_threads, 4)   // blocks a multiprocessor: 128 registers a thread
#define WARP __launch_bounds__(lanes::warp_size)

#define X25519(bounds, shape, ladder, base)                                                                                  \
    extern "C" __global__ void bounds x25519_##shape(const uint8_t *__restrict__ in, uint32_t in_stride,                     \
                                                     uint8_t *__restrict__ publics, uint8_t *__restrict__ secrets,           \
                                                     uint32_t out_stride, uint32_t *__restrict__ status, int n, int ladders) { \
        const int block = static_cast<int>(blockIdx.x);                                                                      \
        if (block < ladders) ladder(Batch{in, in_stride, secrets, out_stride, n}, status, block);                            \
        else base(Batch{in, in_stride, publics, out_stride, n}, block - ladders);                                            \
    }                                                                                                                        \
    REGISTER_KERNEL(x25519_##shape)

X25519(THREADS, thread, ladder_thread<block_threads>, base_thread<block_threads>);
X25519(WARP, lanes4, ladder_lanes4, base_lanes4);
X25519(WARP, warp, ladder_warp, base_lanes4);
