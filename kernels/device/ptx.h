// Instructions that CUDA C++ has no name for, wrapped once, for clang and nvcc alike. The names and operand
// orders are the PTX ISA's; section numbers refer to PTX ISA 8.x.
#pragma once

#ifndef CTRUTLS_DEVICE_FN
#define CTRUTLS_DEVICE_FN static __device__ __forceinline__
#endif

// shared_address gives a pointer into shared memory as the 32-bit address that PTX's .shared operands take.
CTRUTLS_DEVICE_FN uint32_t shared_address(const void *p) {
#if defined(__clang__)
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>((__attribute__((address_space(3))) const void *)p));
#else
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
#endif
}

// Named barriers (9.7.13.1, bar{.cta}.sync and .arrive). id is 1..15 (0 belongs to __syncthreads) and threads,
// a multiple of 32, counts all who sync or arrive.
CTRUTLS_DEVICE_FN void bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
CTRUTLS_DEVICE_FN void bar_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Flags between blocks or warps (8.8, memory consistency): release before, acquire after.
CTRUTLS_DEVICE_FN uint32_t load_acquire(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
CTRUTLS_DEVICE_FN void store_release(uint32_t *p, uint32_t v) { asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

// Asynchronous copies from global to shared memory (9.7.9.25). Both addresses are aligned to the size copied. A thread
// sees its own copies after the wait; other threads see them after a barrier that follows the wait.
CTRUTLS_DEVICE_FN void cp_async16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
CTRUTLS_DEVICE_FN void cp_async8(void *shared, const void *global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
CTRUTLS_DEVICE_FN void cp_async4(void *shared, const void *global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
// cp_async16_zfill reads only the first `bytes` (0..16) of the 16 and fills the rest with zeros.
CTRUTLS_DEVICE_FN void cp_async16_zfill(void *shared, const void *global, uint32_t bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes) : "memory");
}
CTRUTLS_DEVICE_FN void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// cp_async_wait waits until at most `pending` of the newest committed groups are under way.
template <int pending>
CTRUTLS_DEVICE_FN void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory"); }
CTRUTLS_DEVICE_FN void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// ldmatrix (9.7.14.5.15): 8x8 matrices of 16-bit elements from shared memory. Lane i gives the address of row i % 8 of
// matrix i / 8 (16 bytes, aligned to 16), and receives in r[m] the elements 2(i % 4) and 2(i % 4) + 1 of row i / 4 of
// matrix m; with _trans, of its transpose. All 32 lanes take part.
#define CTRUTLS_LDMATRIX(name, trans)                                                                                                  \
    CTRUTLS_DEVICE_FN void ldmatrix_x1##name(uint32_t &r0, const void *row) {                                                          \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"                                                   \
                     : "=r"(r0) : "r"(shared_address(row)) : "memory");                                                                \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN void ldmatrix_x2##name(uint32_t (&r)[2], const void *row) {                                                      \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"                                               \
                     : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(row)) : "memory");                                                  \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN void ldmatrix_x4##name(uint32_t (&r)[4], const void *row) {                                                      \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"                                       \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");                          \
    }
CTRUTLS_LDMATRIX(, "")
CTRUTLS_LDMATRIX(_trans, ".trans")
#undef CTRUTLS_LDMATRIX

// mma.sync on 8-bit integers (9.7.14.5.8, 9.7.14.5.9), d += a x b in 32 bits, wrapping. The suffix names a's type, then b's.
// m16n8k32: register r of a holds, for lane i with g = i / 4 and t = i % 4, row g + 8(r % 2), columns 4t + 16(r / 2) .. + 3;
// register r of b holds rows 4t + 16r .. + 3 of column g; d[j] is row g + 8(j / 2), column 2t + j % 2.
// m16n8k16: a has two registers (rows g and g + 8, columns 4t .. 4t + 3), b one. All 32 lanes take part.
#define CTRUTLS_MMA(suffix, types)                                                                                                     \
    CTRUTLS_DEVICE_FN void mma_m16n8k32_##suffix(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,     \
                                                 uint32_t b1) {                                                                        \
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "              \
                     "{%0, %1, %2, %3};"                                                                                               \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                                  \
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                                          \
    }                                                                                                                                  \
    CTRUTLS_DEVICE_FN void mma_m16n8k16_##suffix(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {                             \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32." types ".s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"         \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                                  \
                     : "r"(a0), "r"(a1), "r"(b0));                                                                                     \
    }
CTRUTLS_MMA(s8s8, "s8.s8")
CTRUTLS_MMA(s8u8, "s8.u8")
CTRUTLS_MMA(u8s8, "u8.s8")
CTRUTLS_MMA(u8u8, "u8.u8")
#undef CTRUTLS_MMA

// dp4a on mixed types (9.7.1.23): c + the dot product of a's four signed bytes with b's four unsigned ones.
CTRUTLS_DEVICE_FN int32_t dp4a_s8u8(uint32_t a, uint32_t b, int32_t c) {
    int32_t r;
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

// lop3 (9.7.8.6): any function of three bits; bit (a << 2 | b << 1 | c) of table is its value.
template <int table>
CTRUTLS_DEVICE_FN uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(table));
    return r;
}

// Carry chains (9.7.2). The carry lives in the condition code, so a chain is written as adjacent calls, with no call, barrier
// or branch between them; sub_cc leaves the borrow there.
#define CTRUTLS_CARRY2(name, op)                                                                                                       \
    CTRUTLS_DEVICE_FN uint32_t name(uint32_t a, uint32_t b) {                                                                          \
        uint32_t r;                                                                                                                    \
        asm volatile(op " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                                                                    \
        return r;                                                                                                                      \
    }
#define CTRUTLS_CARRY3(name, op)                                                                                                       \
    CTRUTLS_DEVICE_FN uint32_t name(uint32_t a, uint32_t b, uint32_t c) {                                                              \
        uint32_t r;                                                                                                                    \
        asm volatile(op " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));                                                        \
        return r;                                                                                                                      \
    }
CTRUTLS_CARRY2(add_cc, "add.cc.u32")
CTRUTLS_CARRY2(addc_cc, "addc.cc.u32")
CTRUTLS_CARRY2(addc, "addc.u32")
CTRUTLS_CARRY2(sub_cc, "sub.cc.u32")
CTRUTLS_CARRY2(subc_cc, "subc.cc.u32")
CTRUTLS_CARRY2(subc, "subc.u32")
CTRUTLS_CARRY3(mad_lo_cc, "mad.lo.cc.u32")
CTRUTLS_CARRY3(madc_lo_cc, "madc.lo.cc.u32")
CTRUTLS_CARRY3(madc_lo, "madc.lo.u32")
CTRUTLS_CARRY3(mad_hi_cc, "mad.hi.cc.u32")
CTRUTLS_CARRY3(madc_hi_cc, "madc.hi.cc.u32")
CTRUTLS_CARRY3(madc_hi, "madc.hi.u32")
#undef CTRUTLS_CARRY2
#undef CTRUTLS_CARRY3
