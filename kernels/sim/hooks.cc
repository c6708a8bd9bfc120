// The compiler calls these functions, under the names that its sanitizers' run-time libraries use, before each load and store
// of a kernel and where C++ leaves behaviour undefined. The sanitizers' own libraries are not linked.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <string>

#include "block.h"

using sim::Worker;

namespace {

template <uintptr_t bytes>
void check(void *p, Worker::Access kind, const void *pc) {
    Worker *worker = Worker::current();
    if (!worker) return;  // the library's own start-up
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    worker->access(address, bytes, kind, pc);
    if (address % bytes != 0)
        worker->fault(sim::fault_misaligned_address, "an access of " + std::to_string(bytes) + " bytes is not aligned to its size", pc);
}

void check_range(const void *p, uint64_t bytes, Worker::Access kind, const void *pc) {
    Worker *worker = Worker::current();
    if (worker && bytes > 0) worker->access(reinterpret_cast<uintptr_t>(p), bytes, kind, pc);
}

}  // namespace

#define HOOK(name, ...) extern "C" void name(__VA_ARGS__)
#define PC __builtin_return_address(0)
#define SIZED_HOOKS(bytes)                                                                                     \
    HOOK(__tsan_read##bytes, void *p) { check<bytes>(p, Worker::Access::read, PC); }                           \
    HOOK(__tsan_write##bytes, void *p) { check<bytes>(p, Worker::Access::write, PC); }                         \
    HOOK(__tsan_unaligned_read##bytes, void *p) { check_range(p, bytes, Worker::Access::read, PC); }           \
    HOOK(__tsan_unaligned_write##bytes, void *p) { check_range(p, bytes, Worker::Access::write, PC); }
SIZED_HOOKS(1)
SIZED_HOOKS(2)
SIZED_HOOKS(4)
SIZED_HOOKS(8)
SIZED_HOOKS(16)

HOOK(__tsan_init, void) {}
HOOK(__tsan_func_entry, void *) {
    if (Worker *worker = Worker::current()) worker->check_stack(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
}
HOOK(__tsan_func_exit, void) {}
HOOK(__tsan_read_range, void *p, uintptr_t bytes) { check_range(p, bytes, Worker::Access::read, PC); }
HOOK(__tsan_write_range, void *p, uintptr_t bytes) { check_range(p, bytes, Worker::Access::write, PC); }

// clang calls these for memcpy and its like; for gcc the build script links the plain names to the wrappers below.
extern "C" void *__tsan_memcpy(void *to, const void *from, uintptr_t bytes) {
    check_range(from, bytes, Worker::Access::read, PC);
    check_range(to, bytes, Worker::Access::write, PC);
    return memmove(to, from, bytes);
}
extern "C" void *__tsan_memmove(void *to, const void *from, uintptr_t bytes) {
    check_range(from, bytes, Worker::Access::read, PC);
    check_range(to, bytes, Worker::Access::write, PC);
    return memmove(to, from, bytes);
}
extern "C" void *__tsan_memset(void *to, int value, uintptr_t bytes) {
    check_range(to, bytes, Worker::Access::write, PC);
    return memset(to, value, bytes);
}

// Undefined behaviour. Each handler gets a record that starts with the place in the source.
namespace {

struct Place {
    const char *file;
    uint32_t line, column;
};

void undefined(int code, const void *record, const char *what) {
    Worker *worker = Worker::current();
    if (!worker) return;
    const Place *place = static_cast<const Place *>(record);
    const char *slash = strrchr(place->file, '/');
    worker->fault(code, std::string(what) + " at " + (slash ? slash + 1 : place->file) + ":" + std::to_string(place->line));
}

}  // namespace

HOOK(__ubsan_handle_out_of_bounds, const void *record, uintptr_t index) {
    undefined(sim::fault_illegal_address, record, ("index " + std::to_string(static_cast<intptr_t>(index)) + " out of an array's bounds").c_str());
}
HOOK(__ubsan_handle_type_mismatch_v1, const void *record, uintptr_t pointer) {
    if (pointer == 0)
        undefined(sim::fault_illegal_address, record, "null pointer");
    else
        undefined(sim::fault_misaligned_address, record, "misaligned address");
}
HOOK(__ubsan_handle_add_overflow, const void *record, uintptr_t, uintptr_t) { undefined(sim::fault_launch_failed, record, "signed overflow in an addition"); }
HOOK(__ubsan_handle_sub_overflow, const void *record, uintptr_t, uintptr_t) { undefined(sim::fault_launch_failed, record, "signed overflow in a subtraction"); }
HOOK(__ubsan_handle_mul_overflow, const void *record, uintptr_t, uintptr_t) { undefined(sim::fault_launch_failed, record, "signed overflow in a multiplication"); }
HOOK(__ubsan_handle_negate_overflow, const void *record, uintptr_t) { undefined(sim::fault_launch_failed, record, "signed overflow in a negation"); }
HOOK(__ubsan_handle_divrem_overflow, const void *record, uintptr_t, uintptr_t) { undefined(sim::fault_launch_failed, record, "division by zero or overflow in a division"); }
HOOK(__ubsan_handle_shift_out_of_bounds, const void *record, uintptr_t, uintptr_t) { undefined(sim::fault_launch_failed, record, "shift by the type's width or more"); }
