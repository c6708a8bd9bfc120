// The simulator's reading of kernels/device/device.h: the same names as C++ functions that run on fibres.
// Kernels include it through device.h when CTRUTLS_SIM is defined. They are compiled with the compiler's
// thread-sanitizer instrumentation, so that every load and store passes through hooks.cc; nothing here
// checks ordinary accesses.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <source_location>
#include <utility>

namespace simt {

// Where in the kernels' source an operation stands. Lanes that meet in a warp operation, and threads that meet in
// a barrier, must come from the same place.
using Site = std::source_location;

struct Index {
    unsigned x, y, z;
};

// What a thread is. The answer never changes within one fibre, so the compiler may keep it.
__attribute__((const)) Index thread_index();
__attribute__((const)) Index block_index();
__attribute__((const)) Index block_dim();
__attribute__((const)) Index grid_dim();

// Memory of the block. A SharedSite is one SHARED declaration.
struct SharedSite {
    const char *name;
    uint32_t bytes, align;
};
void *shared_variable(const SharedSite *site);
void *dynamic_shared();

// Barriers and waiting.
void block_barrier(Site site);
void warp_barrier(unsigned mask, Site site);
void named_barrier(int id, int threads, Site site);
void named_arrive(int id, int threads, Site site);
void pause();
[[noreturn]] void trap();

// Warp operations.
enum class Shuffle { index, up, down, exclusive_or };
uint64_t shuffle(Shuffle mode, unsigned mask, uint64_t value, int lane, int width, Site site);
unsigned ballot(unsigned mask, bool predicate, Site site);
enum class Reduction { add, bit_and, bit_or, bit_xor, max, min };
unsigned reduce(Reduction op, unsigned mask, unsigned value, Site site);
// Four registers of a fragment, two to a word. By value, so that a kernel's arrays keep their addresses to themselves
// and stay out of the instrumentation.
struct Fragment {
    uint64_t low, high;
};
Fragment load_matrix(int matrices, bool transposed, const void *row, Site site);
Fragment mma_k32(Fragment d, Fragment a, uint64_t b, bool a_signed, bool b_signed, Site site);
Fragment mma_k16(Fragment d, uint64_t a, uint32_t b, bool a_signed, bool b_signed, Site site);
inline uint64_t pack(uint32_t first, uint32_t second) { return static_cast<uint64_t>(second) << 32 | first; }

// Asynchronous copies.
void copy_async(void *shared, const void *global, unsigned bytes, unsigned read);
void copy_commit();
void copy_wait(int pending);
void copy_wait_all();

// Checked atomic access. Each returns the old value.
enum class Atomic { add, bit_or, bit_and, bit_xor, exchange, max, min, compare_exchange };
uint64_t atomic(Atomic op, void *p, unsigned bytes, uint64_t value, uint64_t compare);
uint32_t atomic_load(const uint32_t *p);
void atomic_store(uint32_t *p, uint32_t value);

// The carry that add.cc leaves, one a host thread: a chain never meets a fibre switch.
uint32_t add_cc(uint32_t a, uint32_t b);
uint32_t addc_cc(uint32_t a, uint32_t b);
uint32_t addc(uint32_t a, uint32_t b);
uint32_t sub_cc(uint32_t a, uint32_t b);
uint32_t subc_cc(uint32_t a, uint32_t b);
uint32_t subc(uint32_t a, uint32_t b);

long long clock();

// Registration of a kernel. Parameters are integers and pointers.
template <class T>
constexpr bool is_parameter = false;
template <class T>
constexpr bool is_parameter<T *> = true;
#define SIMT_INTEGER(type) template <> inline constexpr bool is_parameter<type> = true
SIMT_INTEGER(bool);
SIMT_INTEGER(char);
SIMT_INTEGER(signed char);
SIMT_INTEGER(unsigned char);
SIMT_INTEGER(short);
SIMT_INTEGER(unsigned short);
SIMT_INTEGER(int);
SIMT_INTEGER(unsigned);
SIMT_INTEGER(long);
SIMT_INTEGER(unsigned long);
SIMT_INTEGER(long long);
SIMT_INTEGER(unsigned long long);
#undef SIMT_INTEGER

template <class T>
constexpr bool is_pointer = false;
template <class T>
constexpr bool is_pointer<T *> = true;

struct Parameter {
    uint8_t bytes;
    bool pointer;
};

struct Kernel {
    const char *name;
    void (*run)(void *const *arguments);  // calls the kernel with each argument read from its address
    const Parameter *parameters;
    int parameter_count;
    Kernel *next;
};
void register_kernel(Kernel *kernel);

template <auto function>
struct Registration;
template <class... Arguments, void (*function)(Arguments...)>
struct Registration<function> {
    static_assert((is_parameter<Arguments> && ...), "a kernel's parameters are integers and pointers");
    static inline const Parameter parameters[sizeof...(Arguments) + 1] = {{sizeof(Arguments), is_pointer<Arguments>}..., {}};

    // The arguments lie in the simulator's own memory: reading them is no access of the kernel's.
    template <size_t... i>
    __attribute__((noinline, no_sanitize("thread", "undefined"))) static void call([[maybe_unused]] void *const *arguments, std::index_sequence<i...>) {
        function(*static_cast<Arguments *>(arguments[i])...);
    }
    __attribute__((no_sanitize("thread", "undefined"))) static void run(void *const *arguments) { call(arguments, std::index_sequence_for<Arguments...>()); }

    Kernel kernel;
    explicit Registration(const char *name) : kernel{name, run, parameters, sizeof...(Arguments), nullptr} { register_kernel(&kernel); }
};

}  // namespace simt

#define __global__
#define __device__
#define __host__
#define __constant__ inline
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

#define SHARED(type, name, ...)                                                                                        \
    struct name##_shared {                                                                                             \
        type name __VA_ARGS__;                                                                                         \
    };                                                                                                                 \
    static const simt::SharedSite name##_site = {#name, sizeof(name##_shared), alignof(name##_shared)};                \
    auto &name = static_cast<name##_shared *>(simt::shared_variable(&name##_site))->name
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(simt::dynamic_shared())
#define REGISTER_KERNEL(name) static simt::Registration<name> name##_registration(#name)

#define threadIdx (simt::thread_index())
#define blockIdx (simt::block_index())
#define blockDim (simt::block_dim())
#define gridDim (simt::grid_dim())

struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(8) int2 { int x, y; };
struct __align__(16) int4 { int x, y, z, w; };
struct __align__(16) ulonglong2 { unsigned long long x, y; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

inline void __syncthreads(simt::Site site = simt::Site::current()) { simt::block_barrier(site); }
inline void __syncwarp(unsigned mask = 0xffffffffu, simt::Site site = simt::Site::current()) { simt::warp_barrier(mask, site); }
inline void bar_sync(int id, int threads, simt::Site site = simt::Site::current()) { simt::named_barrier(id, threads, site); }
inline void bar_arrive(int id, int threads, simt::Site site = simt::Site::current()) { simt::named_arrive(id, threads, site); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { simt::pause(); }
inline void __trap() { simt::trap(); }
inline long long clock64() { return simt::clock(); }
inline uint32_t load_acquire(const uint32_t *p) { return simt::atomic_load(p); }
inline void store_release(uint32_t *p, uint32_t v) { simt::atomic_store(p, v); }

#define SIMT_SHUFFLE_TYPE(name, mode, type, lane_type)                                                                 \
    inline type name(unsigned mask, type v, lane_type lane, int width = 32, simt::Site site = simt::Site::current()) {             \
        return static_cast<type>(simt::shuffle(mode, mask, static_cast<uint64_t>(v), static_cast<int>(lane), width, site)); \
    }
#define SIMT_SHUFFLE(name, mode, lane_type)                                                                            \
    SIMT_SHUFFLE_TYPE(name, mode, int, lane_type)                                                                      \
    SIMT_SHUFFLE_TYPE(name, mode, unsigned, lane_type)                                                                 \
    SIMT_SHUFFLE_TYPE(name, mode, unsigned long, lane_type)                                                            \
    SIMT_SHUFFLE_TYPE(name, mode, unsigned long long, lane_type)                                                       \
    inline float name(unsigned mask, float v, lane_type lane, int width = 32, simt::Site site = simt::Site::current()) {           \
        unsigned bits;                                                                                                 \
        __builtin_memcpy(&bits, &v, 4);                                                                                \
        bits = name(mask, bits, lane, width, site);                                                                    \
        __builtin_memcpy(&v, &bits, 4);                                                                                \
        return v;                                                                                                      \
    }
SIMT_SHUFFLE(__shfl_sync, simt::Shuffle::index, int)
SIMT_SHUFFLE(__shfl_up_sync, simt::Shuffle::up, unsigned)
SIMT_SHUFFLE(__shfl_down_sync, simt::Shuffle::down, unsigned)
SIMT_SHUFFLE(__shfl_xor_sync, simt::Shuffle::exclusive_or, int)
#undef SIMT_SHUFFLE
#undef SIMT_SHUFFLE_TYPE

inline unsigned __ballot_sync(unsigned mask, int predicate, simt::Site site = simt::Site::current()) { return simt::ballot(mask, predicate != 0, site); }
inline int __any_sync(unsigned mask, int predicate, simt::Site site = simt::Site::current()) { return simt::ballot(mask, predicate != 0, site) != 0; }
inline int __all_sync(unsigned mask, int predicate, simt::Site site = simt::Site::current()) { return simt::ballot(mask, predicate != 0, site) == mask; }
#define SIMT_REDUCE(name, op) \
    inline unsigned name(unsigned mask, unsigned v, simt::Site site = simt::Site::current()) { return simt::reduce(op, mask, v, site); }
SIMT_REDUCE(__reduce_add_sync, simt::Reduction::add)
SIMT_REDUCE(__reduce_and_sync, simt::Reduction::bit_and)
SIMT_REDUCE(__reduce_or_sync, simt::Reduction::bit_or)
SIMT_REDUCE(__reduce_xor_sync, simt::Reduction::bit_xor)
SIMT_REDUCE(__reduce_max_sync, simt::Reduction::max)
SIMT_REDUCE(__reduce_min_sync, simt::Reduction::min)
#undef SIMT_REDUCE

inline void cp_async16(void *shared, const void *global) { simt::copy_async(shared, global, 16, 16); }
inline void cp_async8(void *shared, const void *global) { simt::copy_async(shared, global, 8, 8); }
inline void cp_async4(void *shared, const void *global) { simt::copy_async(shared, global, 4, 4); }
inline void cp_async16_zfill(void *shared, const void *global, uint32_t bytes) { simt::copy_async(shared, global, 16, bytes); }
inline void cp_async_commit() { simt::copy_commit(); }
template <int pending>
inline void cp_async_wait() { simt::copy_wait(pending); }
inline void cp_async_wait_all() { simt::copy_wait_all(); }

#define SIMT_LDMATRIX(name, transposed)                                                                                \
    inline void ldmatrix_x1##name(uint32_t &r0, const void *row, simt::Site site = simt::Site::current()) {                        \
        r0 = static_cast<uint32_t>(simt::load_matrix(1, transposed, row, site).low);                                   \
    }                                                                                                                  \
    inline void ldmatrix_x2##name(uint32_t (&r)[2], const void *row, simt::Site site = simt::Site::current()) {                    \
        const simt::Fragment f = simt::load_matrix(2, transposed, row, site);                                          \
        r[0] = static_cast<uint32_t>(f.low), r[1] = static_cast<uint32_t>(f.low >> 32);                                \
    }                                                                                                                  \
    inline void ldmatrix_x4##name(uint32_t (&r)[4], const void *row, simt::Site site = simt::Site::current()) {                    \
        const simt::Fragment f = simt::load_matrix(4, transposed, row, site);                                          \
        r[0] = static_cast<uint32_t>(f.low), r[1] = static_cast<uint32_t>(f.low >> 32);                                \
        r[2] = static_cast<uint32_t>(f.high), r[3] = static_cast<uint32_t>(f.high >> 32);                              \
    }
SIMT_LDMATRIX(, false)
SIMT_LDMATRIX(_trans, true)
#undef SIMT_LDMATRIX

namespace simt {
inline Fragment accumulators(const int32_t (&d)[4]) {
    return {pack(static_cast<uint32_t>(d[0]), static_cast<uint32_t>(d[1])), pack(static_cast<uint32_t>(d[2]), static_cast<uint32_t>(d[3]))};
}
inline void assign(int32_t (&d)[4], Fragment f) {
    d[0] = static_cast<int32_t>(f.low), d[1] = static_cast<int32_t>(f.low >> 32);
    d[2] = static_cast<int32_t>(f.high), d[3] = static_cast<int32_t>(f.high >> 32);
}
}  // namespace simt

#define SIMT_MMA(suffix, a_signed, b_signed)                                                                           \
    inline void mma_m16n8k32_##suffix(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,             \
                                      uint32_t b0, uint32_t b1, simt::Site site = simt::Site::current()) {                         \
        simt::assign(d, simt::mma_k32(simt::accumulators(d), {simt::pack(a0, a1), simt::pack(a2, a3)}, simt::pack(b0, b1),   \
                                a_signed, b_signed, site));                                                            \
    }                                                                                                                  \
    inline void mma_m16n8k16_##suffix(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0,                          \
                                      simt::Site site = simt::Site::current()) {                                                   \
        simt::assign(d, simt::mma_k16(simt::accumulators(d), simt::pack(a0, a1), b0, a_signed, b_signed, site));             \
    }
SIMT_MMA(s8s8, true, true)
SIMT_MMA(s8u8, true, false)
SIMT_MMA(u8s8, false, true)
SIMT_MMA(u8u8, false, false)
#undef SIMT_MMA

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __brev(unsigned v) {
    v = (v & 0x55555555u) << 1 | (v >> 1 & 0x55555555u);
    v = (v & 0x33333333u) << 2 | (v >> 2 & 0x33333333u);
    v = (v & 0x0f0f0f0fu) << 4 | (v >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(v);
}
// Each nibble of selector picks a byte of b:a (bits 0..2) or, with bit 3, that byte's sign repeated.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = selector >> (4 * i);
        unsigned byte = static_cast<unsigned>(both >> (8 * (pick & 7))) & 0xffu;
        if (pick & 8) byte = byte & 0x80u ? 0xffu : 0;
        r |= byte << (8 * i);
    }
    return r;
}
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>(((static_cast<uint64_t>(hi) << 32 | lo) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(hi) << 32 | lo) >> (shift & 31));
}
// The dot products wrap in 32 bits, as the instruction's do.
inline int __dp4a(int a, int b, int c) {
    unsigned r = static_cast<unsigned>(c);
    for (int i = 0; i < 32; i += 8) r += static_cast<unsigned>(static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i));
    return static_cast<int>(r);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 0xffu) * (b >> i & 0xffu);
    return c;
}
inline int32_t dp4a_s8u8(uint32_t a, uint32_t b, int32_t c) {
    unsigned r = static_cast<unsigned>(c);
    for (int i = 0; i < 32; i += 8) r += static_cast<unsigned>(static_cast<int8_t>(a >> i) * static_cast<int>(b >> i & 0xffu));
    return static_cast<int32_t>(r);
}
template <int table>
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
    if (table & 0x01) r |= ~a & ~b & ~c;
    if (table & 0x02) r |= ~a & ~b & c;
    if (table & 0x04) r |= ~a & b & ~c;
    if (table & 0x08) r |= ~a & b & c;
    if (table & 0x10) r |= a & ~b & ~c;
    if (table & 0x20) r |= a & ~b & c;
    if (table & 0x40) r |= a & b & ~c;
    if (table & 0x80) r |= a & b & c;
    return r;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

using simt::add_cc;
using simt::addc;
using simt::addc_cc;
using simt::sub_cc;
using simt::subc;
using simt::subc_cc;
inline uint32_t mad_lo_cc(uint32_t a, uint32_t b, uint32_t c) { return add_cc(a * b, c); }
inline uint32_t madc_lo_cc(uint32_t a, uint32_t b, uint32_t c) { return addc_cc(a * b, c); }
inline uint32_t madc_lo(uint32_t a, uint32_t b, uint32_t c) { return addc(a * b, c); }
inline uint32_t mad_hi_cc(uint32_t a, uint32_t b, uint32_t c) { return add_cc(__umulhi(a, b), c); }
inline uint32_t madc_hi_cc(uint32_t a, uint32_t b, uint32_t c) { return addc_cc(__umulhi(a, b), c); }
inline uint32_t madc_hi(uint32_t a, uint32_t b, uint32_t c) { return addc(__umulhi(a, b), c); }

inline unsigned __float_as_uint(float v) { return __builtin_bit_cast(unsigned, v); }
inline float __uint_as_float(unsigned v) { return __builtin_bit_cast(float, v); }
inline int __float_as_int(float v) { return __builtin_bit_cast(int, v); }
inline float __int_as_float(int v) { return __builtin_bit_cast(float, v); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// Rounds to nearest even; out of range it saturates and NaN gives 0, as cvt.rni.s32.f32 does.
inline int __float2int_rn(float v) {
    if (v != v) return 0;
    if (v >= 2147483648.0f) return 2147483647;
    if (v <= -2147483648.0f) return -2147483647 - 1;
    return static_cast<int>(__builtin_rintf(v));
}

template <class T>
inline T __ldg(const T *p) { return *p; }
template <class T>
inline T __ldcs(const T *p) { return *p; }
template <class T>
inline void __stcs(T *p, T v) { *p = v; }

inline int atomicAdd(int *p, int v) { return static_cast<int>(simt::atomic(simt::Atomic::add, p, 4, static_cast<unsigned>(v), 0)); }
inline unsigned atomicAdd(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::add, p, 4, v, 0)); }
inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) { return simt::atomic(simt::Atomic::add, p, 8, v, 0); }
inline unsigned atomicOr(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::bit_or, p, 4, v, 0)); }
inline unsigned atomicAnd(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::bit_and, p, 4, v, 0)); }
inline unsigned atomicXor(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::bit_xor, p, 4, v, 0)); }
inline unsigned atomicExch(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::exchange, p, 4, v, 0)); }
inline unsigned atomicMax(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::max, p, 4, v, 0)); }
inline unsigned atomicMin(unsigned *p, unsigned v) { return static_cast<unsigned>(simt::atomic(simt::Atomic::min, p, 4, v, 0)); }
inline unsigned atomicCAS(unsigned *p, unsigned compare, unsigned v) {
    return static_cast<unsigned>(simt::atomic(simt::Atomic::compare_exchange, p, 4, v, compare));
}
