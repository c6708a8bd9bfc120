// What kernels call: the functions of simt.h, on the worker that runs the calling fibre.
#include <string.h>
#include <time.h>

#include <string>

#include "block.h"
#include "simt.h"

namespace simt {
namespace {

using sim::Worker;
using Lanes = Worker::Lanes;

Worker &worker() { return *Worker::current(); }

constexpr unsigned all_lanes = 0xffffffffu;

template <class F>
void each_lane(unsigned mask, F f) {
    for (; mask; mask &= mask - 1) f(static_cast<unsigned>(__builtin_ctz(mask)));
}

// The lane that lane i reads in a shuffle over segments of `width`; its own where the source falls outside the segment.
unsigned shuffle_source(Shuffle mode, unsigned i, int lane, unsigned width) {
    const unsigned first = i & ~(width - 1), last = first + width - 1, n = static_cast<unsigned>(lane);
    switch (mode) {
    case Shuffle::index: return first | (n & (width - 1));
    case Shuffle::up: return n > i - first ? i : i - n;
    case Shuffle::down: return n > last - i ? i : i + n;
    case Shuffle::exclusive_or: return (i ^ n) > last ? i : i ^ n;
    }
    return i;
}

// in: value, lane, width
void apply_shuffle(Worker &w, Lanes &lanes, unsigned mask, unsigned variant) {
    each_lane(mask, [&](unsigned i) {
        const auto &in = lanes[i]->in;
        const unsigned source = shuffle_source(static_cast<Shuffle>(variant), i, static_cast<int>(in[1]), static_cast<unsigned>(in[2]));
        if (source > 31 || !lanes[source])
            w.fault(sim::fault_launch_failed, "a shuffle reads lane " + std::to_string(source) + ", which its mask does not name");
        lanes[i]->out[0] = lanes[source]->in[0];
    });
}

void apply_ballot(Worker &, Lanes &lanes, unsigned mask, unsigned) {
    uint64_t vote = 0;
    each_lane(mask, [&](unsigned i) { vote |= lanes[i]->in[0] << i; });
    each_lane(mask, [&](unsigned i) { lanes[i]->out[0] = vote; });
}

void apply_reduce(Worker &, Lanes &lanes, unsigned mask, unsigned variant) {
    const auto combine = [variant](uint32_t a, uint32_t b) -> uint32_t {
        switch (static_cast<Reduction>(variant)) {
        case Reduction::add: return a + b;
        case Reduction::bit_and: return a & b;
        case Reduction::bit_or: return a | b;
        case Reduction::bit_xor: return a ^ b;
        case Reduction::max: return a > b ? a : b;
        case Reduction::min: return a < b ? a : b;
        }
        return a;
    };
    const unsigned first = static_cast<unsigned>(__builtin_ctz(mask));
    uint32_t r = static_cast<uint32_t>(lanes[first]->in[0]);
    each_lane(mask & (mask - 1), [&](unsigned i) { r = combine(r, static_cast<uint32_t>(lanes[i]->in[0])); });
    each_lane(mask, [&](unsigned i) { lanes[i]->out[0] = r; });
}

uint64_t word(const Lanes &lanes, unsigned lane, unsigned reg, unsigned first) { return lanes[lane]->in[first + reg / 2] >> (32 * (reg & 1)); }

// variant: number of matrices, plus 8 if transposed. in: row address
void apply_load_matrix(Worker &w, Lanes &lanes, unsigned, unsigned variant) {
    const unsigned matrices = variant & 7;
    uint16_t element[4][8][8];
    for (unsigned m = 0; m < matrices; m++)
        for (unsigned row = 0; row < 8; row++) {
            const uintptr_t p = lanes[8 * m + row]->in[0];
            w.matrix_row(8 * m + row, p);
            memcpy(element[m][row], reinterpret_cast<const void *>(p), 16);
        }
    for (unsigned i = 0; i < 32; i++) {
        uint32_t r[4] = {};
        for (unsigned m = 0; m < matrices; m++) {
            const unsigned row = i / 4, column = 2 * (i % 4);
            const bool transposed = (variant & 8) != 0;
            const uint16_t low = transposed ? element[m][column][row] : element[m][row][column];
            const uint16_t high = transposed ? element[m][column + 1][row] : element[m][row][column + 1];
            r[m] = static_cast<uint32_t>(high) << 16 | low;
        }
        lanes[i]->out = {pack(r[0], r[1]), pack(r[2], r[3])};
    }
}

int16_t element(uint64_t packed, unsigned byte, bool is_signed) {
    const uint8_t v = static_cast<uint8_t>(packed >> (8 * byte));
    return is_signed ? static_cast<int16_t>(static_cast<int8_t>(v)) : static_cast<int16_t>(v);
}

// d += a x b over `depth` (16 or 32); in: d in two words, a in two, b in one. See kernels/device/ptx.h for the layout.
template <unsigned depth>
void apply_mma(Worker &, Lanes &lanes, unsigned, unsigned variant) {
    const bool a_signed = (variant & 1) != 0, b_signed = (variant & 2) != 0;
    alignas(32) int16_t a[16][depth], b[8][depth];
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned r = 0; r < depth / 8; r++) {
            const uint64_t packed = word(lanes, lane, r, 2);
            for (unsigned j = 0; j < 4; j++) a[g + 8 * (r % 2)][4 * t + 16 * (r / 2) + j] = element(packed, j, a_signed);
        }
        for (unsigned r = 0; r < depth / 16; r++) {
            const uint64_t packed = word(lanes, lane, r, 4);
            for (unsigned j = 0; j < 4; j++) b[g][4 * t + 16 * r + j] = element(packed, j, b_signed);
        }
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        uint32_t d[4];
        for (unsigned j = 0; j < 4; j++) {
            const unsigned row = lane / 4 + 8 * (j / 2), column = 2 * (lane % 4) + j % 2;
            int32_t sum = 0;  // at most 32 * 255 * 255
            for (unsigned k = 0; k < depth; k++) sum += a[row][k] * b[column][k];
            d[j] = static_cast<uint32_t>(word(lanes, lane, j, 0)) + static_cast<uint32_t>(sum);
        }
        lanes[lane]->out = {pack(d[0], d[1]), pack(d[2], d[3])};
    }
}

Fragment run_mma(Worker::Operation operation, Worker::Apply apply, bool a_signed, bool b_signed, Site site, const std::array<uint64_t, 6> &in) {
    const auto &lane = worker().meet(operation, (a_signed ? 1u : 0u) | (b_signed ? 2u : 0u), all_lanes, site, apply, in);
    return {lane.out[0], lane.out[1]};
}

}  // namespace

Index thread_index() { return worker().thread_index(); }
Index block_index() { return worker().block_index(); }
Index block_dim() { return worker().launch().block; }
Index grid_dim() { return worker().launch().grid; }

void *shared_variable(const SharedSite *site) { return worker().shared_variable(site); }
void *dynamic_shared() { return worker().dynamic_shared(); }

void block_barrier(Site site) { worker().block_barrier(site); }
void warp_barrier(unsigned mask, Site site) { worker().warp_barrier(mask, site); }
void named_barrier(int id, int threads, Site site) { worker().named_barrier(id, threads, true, site); }
void named_arrive(int id, int threads, Site site) { worker().named_barrier(id, threads, false, site); }
void pause() { worker().pause(); }
void trap() { worker().fault(sim::fault_launch_failed, "__trap()"); }

uint64_t shuffle(Shuffle mode, unsigned mask, uint64_t value, int lane, int width, Site site) {
    if (width <= 0 || width > 32 || (width & (width - 1)) != 0) worker().fault(sim::fault_launch_failed, "a shuffle's width is a power of two up to 32");
    return worker().meet(Worker::Operation::shuffle, static_cast<unsigned>(mode), mask, site, apply_shuffle,
                         {value, static_cast<uint64_t>(lane), static_cast<uint64_t>(width)}).out[0];
}

unsigned ballot(unsigned mask, bool predicate, Site site) {
    return static_cast<unsigned>(worker().meet(Worker::Operation::ballot, 0, mask, site, apply_ballot, {predicate}).out[0]);
}

unsigned reduce(Reduction op, unsigned mask, unsigned value, Site site) {
    return static_cast<unsigned>(worker().meet(Worker::Operation::reduce, static_cast<unsigned>(op), mask, site, apply_reduce, {value}).out[0]);
}

Fragment load_matrix(int matrices, bool transposed, const void *row, Site site) {
    const auto &lane = worker().meet(Worker::Operation::load_matrix, static_cast<unsigned>(matrices) | (transposed ? 8u : 0u), all_lanes, site, apply_load_matrix,
                                     {reinterpret_cast<uintptr_t>(row)});
    return {lane.out[0], lane.out[1]};
}

Fragment mma_k32(Fragment d, Fragment a, uint64_t b, bool a_signed, bool b_signed, Site site) {
    return run_mma(Worker::Operation::mma_k32, apply_mma<32>, a_signed, b_signed, site, {d.low, d.high, a.low, a.high, b});
}

Fragment mma_k16(Fragment d, uint64_t a, uint32_t b, bool a_signed, bool b_signed, Site site) {
    return run_mma(Worker::Operation::mma_k16, apply_mma<16>, a_signed, b_signed, site, {d.low, d.high, a, 0, b});
}

void copy_async(void *shared, const void *global, unsigned bytes, unsigned read) {
    worker().copy_async(reinterpret_cast<uintptr_t>(shared), reinterpret_cast<uintptr_t>(global), bytes, read);
}
void copy_commit() { worker().copy_commit(); }
void copy_wait(int pending) { worker().copy_wait(pending); }
void copy_wait_all() { worker().copy_wait_all(); }

namespace {

// Blocks run at the same time on several host threads, so these are real atomics.
template <class T>
T apply_atomic(Atomic op, T *p, T value, T compare) {
    constexpr int order = __ATOMIC_RELAXED;
    switch (op) {
    case Atomic::add: return __atomic_fetch_add(p, value, order);
    case Atomic::bit_or: return __atomic_fetch_or(p, value, order);
    case Atomic::bit_and: return __atomic_fetch_and(p, value, order);
    case Atomic::bit_xor: return __atomic_fetch_xor(p, value, order);
    case Atomic::exchange: return __atomic_exchange_n(p, value, order);
    case Atomic::compare_exchange:
        __atomic_compare_exchange_n(p, &compare, value, false, order, order);
        return compare;
    case Atomic::max:
    case Atomic::min: break;
    }
    T old = __atomic_load_n(p, order);
    while ((op == Atomic::max ? value > old : value < old) && !__atomic_compare_exchange_n(p, &old, value, true, order, order)) {
    }
    return old;
}

void check_atomic(const void *p, unsigned bytes) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    if (address % bytes != 0) worker().fault(sim::fault_misaligned_address, "an atomic's address is aligned to its size");
    worker().access(address, bytes, Worker::Access::atomic, __builtin_return_address(0));
}

}  // namespace

uint64_t atomic(Atomic op, void *p, unsigned bytes, uint64_t value, uint64_t compare) {
    check_atomic(p, bytes);
    if (bytes == 8) return apply_atomic<uint64_t>(op, static_cast<uint64_t *>(p), value, compare);
    return apply_atomic<uint32_t>(op, static_cast<uint32_t *>(p), static_cast<uint32_t>(value), static_cast<uint32_t>(compare));
}

uint32_t atomic_load(const uint32_t *p) {
    check_atomic(p, 4);
    worker().acquire_flag(reinterpret_cast<uintptr_t>(p));
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

void atomic_store(uint32_t *p, uint32_t value) {
    check_atomic(p, 4);
    worker().release_flag(reinterpret_cast<uintptr_t>(p));
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

uint32_t add_cc(uint32_t a, uint32_t b) {
    const uint64_t sum = static_cast<uint64_t>(a) + b;
    worker().carry = static_cast<uint32_t>(sum >> 32);
    return static_cast<uint32_t>(sum);
}
uint32_t addc_cc(uint32_t a, uint32_t b) {
    const uint64_t sum = static_cast<uint64_t>(a) + b + worker().carry;
    worker().carry = static_cast<uint32_t>(sum >> 32);
    return static_cast<uint32_t>(sum);
}
uint32_t addc(uint32_t a, uint32_t b) { return a + b + worker().carry; }
uint32_t sub_cc(uint32_t a, uint32_t b) {
    worker().carry = a < b;
    return a - b;
}
uint32_t subc_cc(uint32_t a, uint32_t b) {
    const uint64_t difference = static_cast<uint64_t>(a) - b - worker().carry;
    worker().carry = static_cast<uint32_t>(difference >> 32) & 1;
    return static_cast<uint32_t>(difference);
}
uint32_t subc(uint32_t a, uint32_t b) { return a - b - worker().carry; }

long long clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

}  // namespace simt
