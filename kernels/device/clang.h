// CUDA's own names for clang with -nocudainc -nocudalib: qualifiers, built-in variables, vector types and
// intrinsics, as the CUDA C++ Programming Guide defines them. Only what the kernels use is here.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#define CTRUTLS_DEVICE_FN static __device__ __forceinline__

// Built-in variables. Each component reads its special register wherever it is used.
#define CTRUTLS_BUILTIN(name, X, Y, Z)                                                                 \
    struct name##_builtin {                                                                            \
        struct { __device__ __forceinline__ operator unsigned() const { return X; } } x;               \
        struct { __device__ __forceinline__ operator unsigned() const { return Y; } } y;               \
        struct { __device__ __forceinline__ operator unsigned() const { return Z; } } z;               \
    };                                                                                                 \
    extern const __device__ name##_builtin name;
CTRUTLS_BUILTIN(threadIdx, __nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_tid_y(), __nvvm_read_ptx_sreg_tid_z())
CTRUTLS_BUILTIN(blockIdx, __nvvm_read_ptx_sreg_ctaid_x(), __nvvm_read_ptx_sreg_ctaid_y(), __nvvm_read_ptx_sreg_ctaid_z())
CTRUTLS_BUILTIN(blockDim, __nvvm_read_ptx_sreg_ntid_x(), __nvvm_read_ptx_sreg_ntid_y(), __nvvm_read_ptx_sreg_ntid_z())
CTRUTLS_BUILTIN(gridDim, __nvvm_read_ptx_sreg_nctaid_x(), __nvvm_read_ptx_sreg_nctaid_y(), __nvvm_read_ptx_sreg_nctaid_z())
#undef CTRUTLS_BUILTIN

struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(16) ulonglong2 { unsigned long long x, y; };
CTRUTLS_DEVICE_FN uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
CTRUTLS_DEVICE_FN uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
CTRUTLS_DEVICE_FN int2 make_int2(int x, int y) { return {x, y}; }
CTRUTLS_DEVICE_FN int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
CTRUTLS_DEVICE_FN ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

// Fences, waiting. (__syncthreads is built into clang.)
CTRUTLS_DEVICE_FN void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
CTRUTLS_DEVICE_FN void __threadfence() { __nvvm_membar_gl(); }
CTRUTLS_DEVICE_FN void __threadfence_block() { __nvvm_membar_cta(); }
CTRUTLS_DEVICE_FN void __threadfence_system() { __nvvm_membar_sys(); }
CTRUTLS_DEVICE_FN void __nanosleep(unsigned ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
CTRUTLS_DEVICE_FN void __trap() { asm volatile("trap;"); }
CTRUTLS_DEVICE_FN long long clock64() { return __nvvm_read_ptx_sreg_clock64(); }

// Warp votes, reductions and shuffles. (The built-ins for reductions take the value before the mask, unlike CUDA's functions.)
CTRUTLS_DEVICE_FN unsigned __ballot_sync(unsigned mask, int predicate) { return __nvvm_vote_ballot_sync(mask, predicate); }
CTRUTLS_DEVICE_FN int __any_sync(unsigned mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate); }
CTRUTLS_DEVICE_FN int __all_sync(unsigned mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate); }
CTRUTLS_DEVICE_FN unsigned __reduce_add_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_add(v, mask); }
CTRUTLS_DEVICE_FN unsigned __reduce_and_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_and(v, mask); }
CTRUTLS_DEVICE_FN unsigned __reduce_or_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_or(v, mask); }
CTRUTLS_DEVICE_FN unsigned __reduce_xor_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_xor(v, mask); }
CTRUTLS_DEVICE_FN unsigned __reduce_max_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_umax(v, mask); }
CTRUTLS_DEVICE_FN unsigned __reduce_min_sync(unsigned mask, unsigned v) { return __nvvm_redux_sync_umin(v, mask); }

// One shuffle in each of the types that kernels exchange. clamp is the lane where a segment ends (start, for up).
#define CTRUTLS_SHUFFLE(name, op, lane_type, clamp)                                                                                    \
    CTRUTLS_DEVICE_FN int name(unsigned mask, int v, lane_type lane, int width = 32) {                                                 \
        return __nvvm_shfl_sync_##op##_i32(mask, v, lane, ((32 - width) << 8) | (clamp));                                              \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN unsigned name(unsigned mask, unsigned v, lane_type lane, int width = 32) {                                       \
        return static_cast<unsigned>(name(mask, static_cast<int>(v), lane, width));                                                    \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN float name(unsigned mask, float v, lane_type lane, int width = 32) {                                             \
        return __nvvm_shfl_sync_##op##_f32(mask, v, lane, ((32 - width) << 8) | (clamp));                                              \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN unsigned long name(unsigned mask, unsigned long v, lane_type lane, int width = 32) {                             \
        unsigned lo = name(mask, static_cast<unsigned>(v), lane, width);                                                               \
        unsigned hi = name(mask, static_cast<unsigned>(v >> 32), lane, width);                                                         \
        return static_cast<unsigned long>(hi) << 32 | lo;                                                                              \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN unsigned long long name(unsigned mask, unsigned long long v, lane_type lane, int width = 32) {                   \
        return name(mask, static_cast<unsigned long>(v), lane, width);                                                                 \
    }
CTRUTLS_SHUFFLE(__shfl_sync, idx, int, 31)
CTRUTLS_SHUFFLE(__shfl_up_sync, up, unsigned, 0)
CTRUTLS_SHUFFLE(__shfl_down_sync, down, unsigned, 31)
CTRUTLS_SHUFFLE(__shfl_xor_sync, bfly, int, 31)
#undef CTRUTLS_SHUFFLE

// Integer and bit intrinsics.
CTRUTLS_DEVICE_FN int __popc(unsigned v) { return __builtin_popcount(v); }
CTRUTLS_DEVICE_FN int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
CTRUTLS_DEVICE_FN int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
CTRUTLS_DEVICE_FN int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v)); }
CTRUTLS_DEVICE_FN int __ffs(int v) { return __builtin_ffs(v); }
CTRUTLS_DEVICE_FN unsigned __brev(unsigned v) { return __builtin_bitreverse32(v); }
CTRUTLS_DEVICE_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) { return __nvvm_prmt(a, b, selector); }
CTRUTLS_DEVICE_FN int __mulhi(int a, int b) { return __nvvm_mulhi_i(a, b); }
CTRUTLS_DEVICE_FN unsigned __umulhi(unsigned a, unsigned b) { return __nvvm_mulhi_ui(a, b); }
CTRUTLS_DEVICE_FN unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return __nvvm_mulhi_ull(a, b); }
CTRUTLS_DEVICE_FN unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    unsigned r;
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(shift));
    return r;
}
CTRUTLS_DEVICE_FN unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    unsigned r;
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(shift));
    return r;
}
CTRUTLS_DEVICE_FN int __dp4a(int a, int b, int c) {
    int r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
CTRUTLS_DEVICE_FN unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    unsigned r;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
CTRUTLS_DEVICE_FN int min(int a, int b) { return a < b ? a : b; }
CTRUTLS_DEVICE_FN int max(int a, int b) { return a > b ? a : b; }
CTRUTLS_DEVICE_FN unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
CTRUTLS_DEVICE_FN unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

// Floating point: exact or correctly rounded operations only.
CTRUTLS_DEVICE_FN unsigned __float_as_uint(float v) { return __builtin_bit_cast(unsigned, v); }
CTRUTLS_DEVICE_FN float __uint_as_float(unsigned v) { return __builtin_bit_cast(float, v); }
CTRUTLS_DEVICE_FN int __float_as_int(float v) { return __builtin_bit_cast(int, v); }
CTRUTLS_DEVICE_FN float __int_as_float(int v) { return __builtin_bit_cast(float, v); }
CTRUTLS_DEVICE_FN float __fmaf_rn(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
CTRUTLS_DEVICE_FN int __float2int_rn(float v) { return __nvvm_f2i_rn(v); }

// Loads through the read-only path.
CTRUTLS_DEVICE_FN uint8_t __ldg(const uint8_t *p) { return __nvvm_ldg_uc(p); }
CTRUTLS_DEVICE_FN uint16_t __ldg(const uint16_t *p) { return __nvvm_ldg_us(p); }
CTRUTLS_DEVICE_FN unsigned __ldg(const unsigned *p) { return __nvvm_ldg_ui(p); }
CTRUTLS_DEVICE_FN int __ldg(const int *p) { return __nvvm_ldg_i(p); }
CTRUTLS_DEVICE_FN unsigned long __ldg(const unsigned long *p) { return __nvvm_ldg_ul(p); }
CTRUTLS_DEVICE_FN unsigned long long __ldg(const unsigned long long *p) { return __nvvm_ldg_ull(p); }
CTRUTLS_DEVICE_FN uint2 __ldg(const uint2 *p) {
    typedef unsigned vector __attribute__((ext_vector_type(2)));
    vector v = __nvvm_ldg_ui2(reinterpret_cast<const vector *>(p));
    return {v[0], v[1]};
}
CTRUTLS_DEVICE_FN uint4 __ldg(const uint4 *p) {
    typedef unsigned vector __attribute__((ext_vector_type(4)));
    vector v = __nvvm_ldg_ui4(reinterpret_cast<const vector *>(p));
    return {v[0], v[1], v[2], v[3]};
}

// Streaming stores and loads: data used once, evicted first.
CTRUTLS_DEVICE_FN unsigned __ldcs(const unsigned *p) {
    unsigned v;
    asm volatile("ld.global.cs.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
CTRUTLS_DEVICE_FN uint2 __ldcs(const uint2 *p) {
    uint2 v;
    asm volatile("ld.global.cs.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
    return v;
}
CTRUTLS_DEVICE_FN uint4 __ldcs(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}
CTRUTLS_DEVICE_FN void __stcs(unsigned *p, unsigned v) { asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
CTRUTLS_DEVICE_FN void __stcs(uint2 *p, uint2 v) {
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
CTRUTLS_DEVICE_FN void __stcs(uint4 *p, uint4 v) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Atomics, relaxed, on global or shared memory; each returns the old value.
CTRUTLS_DEVICE_FN int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }
CTRUTLS_DEVICE_FN unsigned atomicAdd(unsigned *p, unsigned v) {
    return static_cast<unsigned>(__nvvm_atom_add_gen_i(reinterpret_cast<int *>(p), static_cast<int>(v)));
}
CTRUTLS_DEVICE_FN unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
    return static_cast<unsigned long long>(__nvvm_atom_add_gen_ll(reinterpret_cast<long long *>(p), static_cast<long long>(v)));
}
CTRUTLS_DEVICE_FN unsigned atomicOr(unsigned *p, unsigned v) {
    return static_cast<unsigned>(__nvvm_atom_or_gen_i(reinterpret_cast<int *>(p), static_cast<int>(v)));
}
CTRUTLS_DEVICE_FN unsigned atomicAnd(unsigned *p, unsigned v) {
    return static_cast<unsigned>(__nvvm_atom_and_gen_i(reinterpret_cast<int *>(p), static_cast<int>(v)));
}
CTRUTLS_DEVICE_FN unsigned atomicXor(unsigned *p, unsigned v) {
    return static_cast<unsigned>(__nvvm_atom_xor_gen_i(reinterpret_cast<int *>(p), static_cast<int>(v)));
}
CTRUTLS_DEVICE_FN unsigned atomicExch(unsigned *p, unsigned v) {
    return static_cast<unsigned>(__nvvm_atom_xchg_gen_i(reinterpret_cast<int *>(p), static_cast<int>(v)));
}
CTRUTLS_DEVICE_FN unsigned atomicMax(unsigned *p, unsigned v) { return __nvvm_atom_max_gen_ui(p, v); }
CTRUTLS_DEVICE_FN unsigned atomicMin(unsigned *p, unsigned v) { return __nvvm_atom_min_gen_ui(p, v); }
CTRUTLS_DEVICE_FN unsigned atomicCAS(unsigned *p, unsigned compare, unsigned v) {
    return static_cast<unsigned>(__nvvm_atom_cas_gen_i(reinterpret_cast<int *>(p), static_cast<int>(compare), static_cast<int>(v)));
}
