// Kernels that test the simulator and gpu/driver, not a product of this module. The ops_ kernels run every operation of
// kernels/device on inputs from memory, so that the simulator, a card and Go can be held against each other. The broken_
// kernels do, each, one thing wrong.
#include "device/device.h"

namespace {

__constant__ uint32_t table[8] = {3, 1, 4, 1, 5, 9, 2, 6};

constexpr unsigned everyone = 0xffffffffu;

}  // namespace

// ---- Plain kernels

extern "C" __global__ void add(const uint32_t *__restrict__ a, const uint32_t *__restrict__ b, uint32_t *__restrict__ sum, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) sum[i] = a[i] + b[i];
}
REGISTER_KERNEL(add);

// Parameters of every size, written out as 64-bit words.
extern "C" __global__ void parameters(uint64_t *out, int8_t a, uint16_t b, int32_t c, uint32_t d, int64_t e, uint64_t f) {
    out[0] = static_cast<uint64_t>(static_cast<int64_t>(a));
    out[1] = b;
    out[2] = static_cast<uint64_t>(static_cast<int64_t>(c));
    out[3] = d;
    out[4] = static_cast<uint64_t>(e);
    out[5] = f;
}
REGISTER_KERNEL(parameters);

extern "C" __global__ void no_parameters() {}
REGISTER_KERNEL(no_parameters);

// A persistent grid: each thread records where it is, for every element that falls to it.
extern "C" __global__ void __launch_bounds__(96) geometry(uint4 *out, int n) {
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    for (unsigned i = block * threads + thread; i < static_cast<unsigned>(n); i += blocks * threads)
        out[i] = make_uint4(block, thread, blocks, threads);
}
REGISTER_KERNEL(geometry);

// Dynamic shared memory: each thread reads what the thread opposite wrote. bytes is what the launch asked for.
extern "C" __global__ void reverse(const uint32_t *in, uint32_t *out, int bytes) {
    DYNAMIC_SHARED(uint32_t, words);
    const int n = bytes / 4;
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) words[i] = in[i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) out[i] = words[n - 1 - i];
}
REGISTER_KERNEL(reverse);

// ---- Operations. Rows of inputs and of results are `count` wide, one column a thread.

extern "C" __global__ void ops_bits(const uint32_t *in, uint32_t *out) {
    const unsigned i = threadIdx.x, n = blockDim.x;
    const uint32_t a = in[i], b = in[n + i], c = in[2 * n + i];
    const uint64_t w = static_cast<uint64_t>(a) << 32 | b, v = static_cast<uint64_t>(c) << 32 | a;
    int row = 0;
    const auto put = [&](uint32_t r) { out[static_cast<unsigned>(row++) * n + i] = r; };
    put(static_cast<uint32_t>(__popc(a)));
    put(static_cast<uint32_t>(__popcll(w)));
    put(static_cast<uint32_t>(__clz(static_cast<int>(a))));
    put(static_cast<uint32_t>(__clzll(static_cast<long long>(w))));
    put(static_cast<uint32_t>(__ffs(static_cast<int>(a))));
    put(__brev(a));
    put(__byte_perm(a, b, c));
    put(static_cast<uint32_t>(__mulhi(static_cast<int>(a), static_cast<int>(b))));
    put(__umulhi(a, b));
    put(static_cast<uint32_t>(__umul64hi(w, v)));
    put(static_cast<uint32_t>(__umul64hi(w, v) >> 32));
    put(__funnelshift_l(a, b, c));
    put(__funnelshift_r(a, b, c));
    put(static_cast<uint32_t>(__dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c))));
    put(__dp4a(a, b, c));
    put(static_cast<uint32_t>(dp4a_s8u8(a, b, static_cast<int>(c))));
    put(lop3<0x96>(a, b, c));
    put(lop3<0xCA>(a, b, c));
    put(lop3<0x3B>(a, b, c));
    put(static_cast<uint32_t>(min(static_cast<int>(a), static_cast<int>(b))));
    put(static_cast<uint32_t>(max(static_cast<int>(a), static_cast<int>(b))));
    put(min(a, b));
    put(max(a, b));
    put(table[a & 7]);
}
REGISTER_KERNEL(ops_bits);

extern "C" __global__ void ops_carry(const uint32_t *in, uint32_t *out) {
    const unsigned i = threadIdx.x, n = blockDim.x;
    const uint32_t a = in[i], b = in[n + i], c = in[2 * n + i], d = in[3 * n + i];
    int row = 0;
    const auto put = [&](uint32_t r) { out[static_cast<unsigned>(row++) * n + i] = r; };
    uint32_t r0, r1, r2;
    r0 = add_cc(a, b), r1 = addc_cc(c, d), r2 = addc(a, 0);
    put(r0), put(r1), put(r2);
    r0 = sub_cc(a, b), r1 = subc_cc(c, d), r2 = subc(a, 0);
    put(r0), put(r1), put(r2);
    r0 = mad_lo_cc(a, b, c), r1 = madc_hi_cc(a, b, d), r2 = addc(0, 0);
    put(r0), put(r1), put(r2);
    r0 = mad_hi_cc(a, b, c), r1 = madc_lo_cc(c, d, b), r2 = madc_hi(c, d, a);
    put(r0), put(r1), put(r2);
    r0 = add_cc(a, b), r1 = madc_lo(c, d, a);
    put(r0), put(r1);
}
REGISTER_KERNEL(ops_carry);

// Floats are exact or correctly rounded: their bits are compared.
extern "C" __global__ void ops_float(const uint32_t *in, uint32_t *out) {
    const unsigned i = threadIdx.x, n = blockDim.x;
    const float a = static_cast<float>(static_cast<int>(in[i]) >> 8), b = static_cast<float>(static_cast<int>(in[n + i]) >> 12);
    const float c = __uint_as_float((in[2 * n + i] & 0x807fffffu) | 0x40000000u);
    int row = 0;
    const auto put = [&](uint32_t r) { out[static_cast<unsigned>(row++) * n + i] = r; };
    put(__float_as_uint(a * c + b));
    put(__float_as_uint(__fmaf_rn(a, c, b)));
    put(__float_as_uint(a - b * c));
    put(static_cast<uint32_t>(__float2int_rn(c)));
    put(static_cast<uint32_t>(__float2int_rn(a * c)));
    put(static_cast<uint32_t>(static_cast<int>(a * c)));
    put(static_cast<uint32_t>(__float_as_int(__int_as_float(static_cast<int>(in[i])))));
}
REGISTER_KERNEL(ops_float);

extern "C" __global__ void ops_warp(const uint32_t *in, uint32_t *out) {
    const unsigned i = threadIdx.x, n = blockDim.x, lane = i & 31;
    const uint32_t a = in[i], b = in[n + i];
    const uint64_t w = static_cast<uint64_t>(a) << 32 | b;
    int row = 0;
    const auto put = [&](uint32_t r) { out[static_cast<unsigned>(row++) * n + i] = r; };
    put(__shfl_sync(everyone, a, static_cast<int>(b & 31)));
    put(static_cast<uint32_t>(__shfl_sync(everyone, static_cast<int>(a), static_cast<int>(b), 8)));
    put(__shfl_up_sync(everyone, a, 3));
    put(__shfl_up_sync(everyone, a, 5, 16));
    put(__shfl_down_sync(everyone, a, 7));
    put(__shfl_down_sync(everyone, a, 1, 4));
    put(__shfl_xor_sync(everyone, a, 21));
    put(__shfl_xor_sync(everyone, a, 5, 8));
    put(__float_as_uint(__shfl_xor_sync(everyone, __uint_as_float((a & 0x3fffffffu)), 1)));
    const uint64_t w1 = __shfl_sync(everyone, w, static_cast<int>(lane + 9));
    put(static_cast<uint32_t>(w1));
    put(static_cast<uint32_t>(w1 >> 32));
    const uint64_t w2 = __shfl_down_sync(everyone, w, 2, 8);
    put(static_cast<uint32_t>(w2));
    put(static_cast<uint32_t>(w2 >> 32));
    put(__ballot_sync(everyone, a & 1));
    put(static_cast<uint32_t>(__any_sync(everyone, a == 0) != 0));
    put(static_cast<uint32_t>(__all_sync(everyone, a >= 5) != 0));
    put(__reduce_add_sync(everyone, a));
    put(__reduce_and_sync(everyone, a | 0xff00u));
    put(__reduce_or_sync(everyone, a & 0x00ff00ffu));
    put(__reduce_xor_sync(everyone, a));
    put(__reduce_max_sync(everyone, a));
    put(__reduce_min_sync(everyone, a));
    // Parts of a warp, each with its own mask, at the same place in the source.
    const unsigned quad = 0xfu << (lane & ~3u);
    put(__shfl_xor_sync(quad, a, 2, 4));
    put(__ballot_sync(quad, a & 2));
    uint32_t half = 0;
    if (lane < 16) half = __shfl_sync(0xffffu, a, static_cast<int>(15 - lane));
    __syncwarp();
    put(half);
}
REGISTER_KERNEL(ops_warp);

// Barriers of the whole block, of warps and of two halves of the block; the halves hand over through named barriers, one waiting, one only arriving.
extern "C" __global__ void ops_barriers(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, first, [128]);
    SHARED(uint32_t, second, [64]);
    const unsigned i = threadIdx.x;
    first[i] = in[i];
    __syncwarp();
    uint32_t v = first[i ^ 31];
    __syncthreads();
    v += first[127 - i];
    if (i < 64) {
        second[i] = v;
        bar_arrive(1, 128);  // filled
        bar_sync(2, 64);     // among the first half
        v += second[63 - i];
    } else {
        bar_sync(1, 128);
        v += second[i - 64];
    }
    out[i] = v;
}
REGISTER_KERNEL(ops_barriers);

extern "C" __global__ void ops_ldmatrix(const uint4 *in, uint32_t *out) {
    SHARED(__align__(16) uint4, rows, [32]);
    const unsigned lane = threadIdx.x;
    rows[lane] = in[lane];
    __syncwarp();
    uint32_t r[4], s[2], t;
    int row = 0;
    const auto put = [&](uint32_t v) { out[static_cast<unsigned>(row++) * 32 + lane] = v; };
    ldmatrix_x4(r, &rows[lane]);
    put(r[0]), put(r[1]), put(r[2]), put(r[3]);
    ldmatrix_x4_trans(r, &rows[31 - lane]);
    put(r[0]), put(r[1]), put(r[2]), put(r[3]);
    ldmatrix_x2(s, &rows[lane & 15]);
    put(s[0]), put(s[1]);
    ldmatrix_x2_trans(s, &rows[(lane & 15) + 3]);
    put(s[0]), put(s[1]);
    ldmatrix_x1(t, &rows[lane & 7]);
    put(t);
    ldmatrix_x1_trans(t, &rows[lane & 7]);
    put(t);
}
REGISTER_KERNEL(ops_ldmatrix);

// in: four rows of a, two of b, four of d.
extern "C" __global__ void ops_mma(const uint32_t *in, uint32_t *out) {
    const unsigned lane = threadIdx.x;
    uint32_t x[10];
    for (unsigned r = 0; r < 10; r++) x[r] = in[r * 32 + lane];
    int row = 0;
    const auto put = [&](const int32_t(&d)[4]) {
        for (int j = 0; j < 4; j++) out[static_cast<unsigned>(row++) * 32 + lane] = static_cast<uint32_t>(d[j]);
    };
    int32_t d[4];
    const auto start = [&] {
        for (int j = 0; j < 4; j++) d[j] = static_cast<int32_t>(x[6 + j]);
    };
    start(), mma_m16n8k32_s8s8(d, x[0], x[1], x[2], x[3], x[4], x[5]), put(d);
    start(), mma_m16n8k32_s8u8(d, x[0], x[1], x[2], x[3], x[4], x[5]), put(d);
    start(), mma_m16n8k32_u8s8(d, x[0], x[1], x[2], x[3], x[4], x[5]), put(d);
    start(), mma_m16n8k32_u8u8(d, x[0], x[1], x[2], x[3], x[4], x[5]), put(d);
    start(), mma_m16n8k16_s8s8(d, x[0], x[1], x[4]), put(d);
    start(), mma_m16n8k16_s8u8(d, x[0], x[1], x[4]), put(d);
    start(), mma_m16n8k16_u8s8(d, x[0], x[1], x[4]), put(d);
    start(), mma_m16n8k16_u8u8(d, x[0], x[1], x[4]), put(d);
}
REGISTER_KERNEL(ops_mma);

// Copies in two groups in flight; the threads of a warp then read each other's.
extern "C" __global__ void ops_copies(const uint8_t *in, uint32_t *out) {
    SHARED(__align__(16) uint8_t, a, [512]);
    SHARED(__align__(16) uint8_t, b, [512]);
    SHARED(__align__(16) uint8_t, c, [256]);
    SHARED(__align__(16) uint8_t, d, [128]);
    const unsigned lane = threadIdx.x;
    cp_async16(a + 16 * lane, in + 16 * lane);
    cp_async_commit();
    cp_async16_zfill(b + 16 * lane, in + 512 + 16 * lane, lane % 17);
    cp_async8(c + 8 * lane, in + 8 * lane);
    cp_async4(d + 4 * lane, in + 4 * lane);
    cp_async_commit();
    int row = 0;
    const auto put = [&](uint32_t v) { out[static_cast<unsigned>(row++) * 32 + lane] = v; };
    const auto word = [](const uint8_t *p, unsigned i) { return reinterpret_cast<const uint32_t *>(p)[i]; };
    cp_async_wait<1>();
    __syncwarp();
    put(word(a, lane)), put(word(a, 127 - lane));
    cp_async_wait_all();
    __syncwarp();
    put(word(b, lane)), put(word(b, 127 - lane)), put(word(c, 63 - lane)), put(word(d, 31 - lane));
}
REGISTER_KERNEL(ops_copies);

// Loads and stores through the other paths, of every width.
extern "C" __global__ void ops_memory(const uint32_t *in, uint32_t *out) {
    const unsigned i = threadIdx.x, n = blockDim.x;
    int row = 0;
    const auto put = [&](uint32_t v) { out[static_cast<unsigned>(row++) * n + i] = v; };
    put(__ldg(reinterpret_cast<const uint8_t *>(in) + i));
    put(__ldg(reinterpret_cast<const uint16_t *>(in) + i));
    put(__ldg(in + i));
    put(static_cast<uint32_t>(__ldg(reinterpret_cast<const int *>(in) + i)));
    put(static_cast<uint32_t>(__ldg(reinterpret_cast<const unsigned long long *>(in) + i / 2) >> 32));
    put(__ldg(reinterpret_cast<const uint2 *>(in) + i / 2).y);
    put(__ldg(reinterpret_cast<const uint4 *>(in) + i / 4).z);
    put(__ldcs(in + i));
    put(__ldcs(reinterpret_cast<const uint2 *>(in) + i / 2).x);
    put(__ldcs(reinterpret_cast<const uint4 *>(in) + i / 4).w);
    __stcs(out + static_cast<unsigned>(row++) * n + i, in[i]);
    if (i % 2 == 0) __stcs(reinterpret_cast<uint2 *>(out + static_cast<unsigned>(row) * n + i), make_uint2(in[i], ~in[i + 1]));
    row++;
    if (i % 4 == 0) __stcs(reinterpret_cast<uint4 *>(out + static_cast<unsigned>(row) * n + i), make_uint4(in[i], in[i + 1], 7, in[i + 3]));
}
REGISTER_KERNEL(ops_memory);

// Atomics of all blocks on one row of counters, and on shared memory. The results do not depend on the order.
extern "C" __global__ void ops_atomics(const uint32_t *in, uint32_t *counters, unsigned long long *wide) {
    SHARED(unsigned, local, [2]);
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 2) local[threadIdx.x] = 0;
    __syncthreads();
    const uint32_t v = in[i];
    atomicAdd(&counters[0], v);
    atomicOr(&counters[1], 1u << (v & 31));
    atomicAnd(&counters[2], ~(1u << (v >> 8 & 31)));
    atomicXor(&counters[3], v);
    atomicMax(&counters[4], v);
    atomicMin(&counters[5], v);
    atomicAdd(reinterpret_cast<int *>(&counters[6]), -static_cast<int>(v & 0xff));
    atomicCAS(&counters[7], 0, 1);
    atomicAdd(wide, static_cast<unsigned long long>(v) << 20);
    atomicAdd(&local[0], v);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&counters[8], atomicExch(&local[0], 0));
}
REGISTER_KERNEL(ops_atomics);

// One warp writes, the other waits for its flag.
extern "C" __global__ void ops_flags(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, data, [32]);
    SHARED(uint32_t, flag);
    const unsigned i = threadIdx.x;
    if (i == 0) store_release(&flag, 0);
    __syncthreads();
    if (i < 32) {
        data[i] = in[i];
        __syncwarp();
        if (i == 0) store_release(&flag, 1);
    } else {
        while (load_acquire(&flag) == 0) __nanosleep(100);
        out[i - 32] = data[63 - i] + 1;
    }
    __threadfence();
}
REGISTER_KERNEL(ops_flags);

extern "C" __global__ void ops_clock(uint64_t *out) {
    const long long before = clock64();
    __nanosleep(1000);
    const long long after = clock64();
    out[threadIdx.x] = after > before;
}
REGISTER_KERNEL(ops_clock);

// ---- Broken kernels. in and out hold 256 words unless a comment says otherwise; each is run by one block of 64 threads.

extern "C" __global__ void broken_trap(uint32_t *out) {
    if (threadIdx.x == 5) __trap();
    out[threadIdx.x] = 1;
}
REGISTER_KERNEL(broken_trap);

extern "C" __global__ void broken_missing_syncthreads(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, s, [64]);
    s[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = s[63 - threadIdx.x];
}
REGISTER_KERNEL(broken_missing_syncthreads);

// The barrier before the second round is missing: a fast warp overwrites what a slow one has still to read.
extern "C" __global__ void broken_missing_second_barrier(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, s, [64]);
    uint32_t v = in[threadIdx.x];
    for (int round = 0; round < 2; round++) {
        s[threadIdx.x] = v;
        __syncthreads();
        v += s[63 - threadIdx.x];
    }
    out[threadIdx.x] = v;
}
REGISTER_KERNEL(broken_missing_second_barrier);

extern "C" __global__ void broken_missing_syncwarp(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, s, [64]);
    const unsigned i = threadIdx.x;
    s[i] = in[i];
    const uint32_t v = __shfl_xor_sync(everyone, in[i], 1);  // a shuffle is no barrier
    out[i] = s[i ^ 1] + v;
}
REGISTER_KERNEL(broken_missing_syncwarp);

// The barrier is there, but only of each warp.
extern "C" __global__ void broken_too_small_barrier(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, s, [64]);
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = s[(threadIdx.x + 32) % 64];
}
REGISTER_KERNEL(broken_too_small_barrier);

extern "C" __global__ void broken_divergent_barrier(const uint32_t *in, uint32_t *out) {
    if (threadIdx.x < 32) {
        __syncthreads();
        out[threadIdx.x] = in[threadIdx.x];
    } else {
        __syncthreads();
        out[threadIdx.x] = in[threadIdx.x] + 1;
    }
}
REGISTER_KERNEL(broken_divergent_barrier);

extern "C" __global__ void broken_barrier_after_return(const uint32_t *in, uint32_t *out) {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x];
}
REGISTER_KERNEL(broken_barrier_after_return);

extern "C" __global__ void broken_named_barrier_count(const uint32_t *in, uint32_t *out) {
    bar_sync(1, threadIdx.x < 32 ? 64 : 32);
    out[threadIdx.x] = in[threadIdx.x];
}
REGISTER_KERNEL(broken_named_barrier_count);

extern "C" __global__ void broken_deadlock(const uint32_t *in, uint32_t *out) {
    if (threadIdx.x < 32) bar_sync(1, 64);
    else bar_sync(2, 64);
    out[threadIdx.x] = in[threadIdx.x];
}
REGISTER_KERNEL(broken_deadlock);

extern "C" __global__ void broken_shuffle_exited(const uint32_t *in, uint32_t *out) {
    if (threadIdx.x % 32 == 31) return;
    out[threadIdx.x] = __shfl_down_sync(everyone, in[threadIdx.x], 1);
}
REGISTER_KERNEL(broken_shuffle_exited);

extern "C" __global__ void broken_shuffle_diverged(const uint32_t *in, uint32_t *out) {
    uint32_t v = in[threadIdx.x];
    if (threadIdx.x % 2 == 0) v = __shfl_xor_sync(everyone, v, 1);
    else v = __shfl_xor_sync(everyone, v, 1) + 1;
    out[threadIdx.x] = v;
}
REGISTER_KERNEL(broken_shuffle_diverged);

extern "C" __global__ void broken_shuffle_unnamed(const uint32_t *in, uint32_t *out) {
    uint32_t v = in[threadIdx.x];
    if (threadIdx.x % 32 < 8) v = __shfl_sync(0xffu, v, 12);
    out[threadIdx.x] = v;
}
REGISTER_KERNEL(broken_shuffle_unnamed);

extern "C" __global__ void broken_shuffle_not_named(const uint32_t *in, uint32_t *out) { out[threadIdx.x] = __shfl_sync(0x7fffffffu, in[threadIdx.x], 0); }
REGISTER_KERNEL(broken_shuffle_not_named);

extern "C" __global__ void broken_global_read(const uint32_t *in, uint32_t *out) { out[threadIdx.x] = in[threadIdx.x + 193]; }
REGISTER_KERNEL(broken_global_read);

extern "C" __global__ void broken_global_write(const uint32_t *in, uint32_t *out) { out[threadIdx.x + 193] = in[threadIdx.x]; }
REGISTER_KERNEL(broken_global_write);

extern "C" __global__ void broken_global_before(const uint32_t *in, uint32_t *out) {
    const uint8_t *p = reinterpret_cast<const uint8_t *>(in) - 1;
    out[threadIdx.x] = p[threadIdx.x];
}
REGISTER_KERNEL(broken_global_before);

// in[0] % 8 is 7.
extern "C" __global__ void broken_global_vector(const uint32_t *in, uint4 *out) { out[threadIdx.x] = reinterpret_cast<const uint4 *>(in)[threadIdx.x + in[0] % 8 / 7]; }
REGISTER_KERNEL(broken_global_vector);

extern "C" __global__ void broken_misaligned(const uint32_t *in, uint32_t *out) {
    out[threadIdx.x] = *reinterpret_cast<const uint32_t *>(reinterpret_cast<const uint8_t *>(in) + 2 * threadIdx.x);
}
REGISTER_KERNEL(broken_misaligned);

extern "C" __global__ void broken_static_shared(const uint32_t *in, uint32_t *out, int past) {
    SHARED(uint32_t, before, [64]);
    SHARED(uint32_t, s, [64]);
    SHARED(uint32_t, after, [64]);
    uint32_t *p = s;
    before[threadIdx.x] = after[threadIdx.x] = 0;
    p[static_cast<int>(threadIdx.x) + past] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x] + before[threadIdx.x] + after[threadIdx.x];
}
REGISTER_KERNEL(broken_static_shared);

// An index that leaves its row but not the array.
extern "C" __global__ void broken_static_shared_row(const uint32_t *in, uint32_t *out, int past) {
    SHARED(uint32_t, s, [2][64]);
    s[0][threadIdx.x] = s[1][threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[0][static_cast<int>(threadIdx.x) + past];
}
REGISTER_KERNEL(broken_static_shared_row);

// The launch gives 256 bytes.
extern "C" __global__ void broken_dynamic_shared(const uint32_t *in, uint32_t *out, int past) {
    DYNAMIC_SHARED(uint32_t, s);
    s[static_cast<int>(threadIdx.x) + past] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = threadIdx.x == 0 ? 0 : s[threadIdx.x];
}
REGISTER_KERNEL(broken_dynamic_shared);

extern "C" __global__ void broken_local_array(const uint32_t *in, uint32_t *out, int past) {
    uint32_t a[8];
    for (int i = 0; i < 8; i++) a[i] = in[i];
    out[threadIdx.x] = a[static_cast<int>(in[threadIdx.x] % 8) + past];
}
REGISTER_KERNEL(broken_local_array);

// in is whatever pointer the host passes.
extern "C" __global__ void broken_pointer(const uint32_t *in, uint32_t *out) { out[threadIdx.x] = in[threadIdx.x]; }
REGISTER_KERNEL(broken_pointer);

// Two blocks of 64 threads. Each writes a part of what the other reads.
extern "C" __global__ void broken_block_read(const uint32_t *in, uint32_t *out) {
    const unsigned i = threadIdx.x + 64 * blockIdx.x;
    out[i] = in[i];
    __syncthreads();
    out[128 + i] = out[127 - i];
}
REGISTER_KERNEL(broken_block_read);

// Two blocks of 64 threads, which meet in one byte.
extern "C" __global__ void broken_block_write(const uint32_t *in, uint32_t *out) {
    uint8_t *bytes = reinterpret_cast<uint8_t *>(out);
    bytes[threadIdx.x + 63 * blockIdx.x] = static_cast<uint8_t>(in[threadIdx.x]);
}
REGISTER_KERNEL(broken_block_write);

// The address of in comes as a number.
extern "C" __global__ void broken_hidden_pointer(uint64_t in, uint32_t *out) { out[threadIdx.x] = reinterpret_cast<const uint32_t *>(in)[threadIdx.x]; }
REGISTER_KERNEL(broken_hidden_pointer);

extern "C" __global__ void broken_constant_write(const uint32_t *in, uint32_t *out) {
    // Chosen at run time: the compilers refuse to store to what they know to be constant.
    uint32_t *target = in[0] == 1 ? out : const_cast<uint32_t *>(&table[0]);
    target[threadIdx.x & 7] = in[threadIdx.x];
}
REGISTER_KERNEL(broken_constant_write);

extern "C" __global__ void broken_local_pointer(const uint32_t *in, uint32_t *out) {
    SHARED(const uint32_t *, shared_pointer);
    uint32_t mine[4] = {in[threadIdx.x], 1, 2, 3};
    if (threadIdx.x == 0) shared_pointer = mine;
    __syncthreads();
    out[threadIdx.x] = shared_pointer[in[threadIdx.x] & 3];
    __syncthreads();
}
REGISTER_KERNEL(broken_local_pointer);

extern "C" __global__ void broken_uninitialised_shared(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, s, [64]);
    if (threadIdx.x != 63) s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
REGISTER_KERNEL(broken_uninitialised_shared);

extern "C" __global__ void broken_copy_not_waited(const uint32_t *in, uint32_t *out) {
    SHARED(__align__(16) uint32_t, s, [64]);
    cp_async4(&s[threadIdx.x], in + threadIdx.x);
    cp_async_commit();
    out[threadIdx.x] = s[threadIdx.x];
    cp_async_wait_all();
}
REGISTER_KERNEL(broken_copy_not_waited);

extern "C" __global__ void broken_copy_no_barrier(const uint32_t *in, uint32_t *out) {
    SHARED(__align__(16) uint32_t, s, [64]);
    cp_async4(&s[threadIdx.x], in + threadIdx.x);
    cp_async_wait_all();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
REGISTER_KERNEL(broken_copy_no_barrier);

extern "C" __global__ void broken_signed_overflow(const uint32_t *in, uint32_t *out) {
    const int v = static_cast<int>(in[threadIdx.x] | 0x7fffff00u) & 0x7fffffff;
    out[threadIdx.x] = static_cast<uint32_t>(v + static_cast<int>(in[0] & 0xff) + 256);
}
REGISTER_KERNEL(broken_signed_overflow);

extern "C" __global__ void broken_shift(const uint32_t *in, uint32_t *out) { out[threadIdx.x] = in[threadIdx.x] << (in[1] % 2 + 32); }
REGISTER_KERNEL(broken_shift);

extern "C" __global__ void broken_endless(const uint32_t *in, uint32_t *out) {
    for (uint32_t i = 0;; i++) out[threadIdx.x] = in[threadIdx.x] + i;
}
REGISTER_KERNEL(broken_endless);

extern "C" __global__ void broken_waits_for_ever(const uint32_t *in, uint32_t *out) {
    SHARED(uint32_t, flag);
    if (threadIdx.x == 0) store_release(&flag, 0);
    __syncthreads();
    while (load_acquire(&flag) == 0) __nanosleep(10);
    out[threadIdx.x] = in[threadIdx.x];
}
REGISTER_KERNEL(broken_waits_for_ever);
