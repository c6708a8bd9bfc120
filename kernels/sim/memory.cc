#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace sim {
namespace {

void *reserve(uint64_t bytes, int protection) {
    void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "kernels/sim: cannot reserve %llu bytes of address space\n", static_cast<unsigned long long>(bytes));
        abort();
    }
    return p;
}

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

// Fresh memory is filled with this, so that results show what was never written. Larger allocations are left zero to
// keep them uncommitted.
constexpr uint8_t poison = 0xA5;
constexpr uint64_t poison_limit = 16 << 20;

}  // namespace

Arena::Arena(Kind kind, uint64_t span, uintptr_t handle_base) : kind_(kind), span_(span), handle_base_(handle_base), capacity_(span / 2) {
    // Pinned memory can be used by the host as long as it is allocated.
    base_ = reinterpret_cast<uintptr_t>(reserve(span, kind == Kind::device ? PROT_READ | PROT_WRITE : PROT_NONE));
    written_ = kind == Kind::device ? static_cast<uint8_t *>(reserve(span, PROT_READ | PROT_WRITE)) : nullptr;
    owner_ = static_cast<uint32_t *>(reserve(span / granule * sizeof(uint32_t), PROT_READ | PROT_WRITE));
    allocations_ = static_cast<Allocation *>(reserve(max_allocations * sizeof(Allocation), PROT_READ | PROT_WRITE));
}

Arena::~Arena() {
    munmap(reinterpret_cast<void *>(base_), span_);
    if (written_) munmap(written_, span_);
    if (Touched *touched = touched_) munmap(touched, span_ * sizeof(Touched));
    munmap(owner_, span_ / granule * sizeof(uint32_t));
    munmap(allocations_, max_allocations * sizeof(Allocation));
}

void Arena::set_capacity(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    capacity_ = bytes < span_ / 2 ? bytes : span_ / 2;
}

// find_gap returns the first offset at or after the cursor (going round once) with `need` free bytes, or 0.
uint64_t Arena::find_gap(uint64_t need) {
    for (int round = 0; round < 2; round++) {
        uint64_t at = round == 0 ? cursor_ : granule;
        for (;;) {
            if (at + need > span_) break;
            auto after = live_.lower_bound(at);
            if (after != live_.begin()) {
                const Allocation &before = allocations_[std::prev(after)->second];
                const uint64_t end = before.start + round_up(before.bytes, granule) + red_zone;
                if (end > at) {
                    at = end;
                    continue;
                }
            }
            if (after == live_.end() || at + need <= after->first) return at;
            const Allocation &blocker = allocations_[after->second];
            at = blocker.start + round_up(blocker.bytes, granule) + red_zone;
        }
    }
    return 0;
}

int64_t Arena::allocate(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (bytes == 0 || bytes > capacity_ || live_bytes_ + bytes > capacity_ || next_index_ == max_allocations) return -1;
    const uint64_t need = round_up(bytes, granule) + red_zone;
    const uint64_t at = find_gap(need);
    if (at == 0) return -1;
    const uint32_t index = next_index_++;
    allocations_[index].start = at;
    allocations_[index].bytes = bytes;
    allocations_[index].live = true;
    for (uint64_t g = at / granule; g < (at + need) / granule; g++) owner_[g] = index;
    live_[at] = index;
    cursor_ = at + need;
    live_bytes_ += bytes;
    live_count_++;
    if (kind_ == Kind::pinned && mprotect(reinterpret_cast<void *>(base_ + at), round_up(bytes, granule), PROT_READ | PROT_WRITE) != 0) abort();
    if (bytes <= poison_limit) memset(reinterpret_cast<void *>(base_ + at), poison, bytes);
    return static_cast<int64_t>(at);
}

bool Arena::release(uint64_t offset) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = live_.find(offset);
    if (found == live_.end()) return false;
    Allocation &a = allocations_[found->second];
    a.live = false;
    live_bytes_ -= a.bytes;
    live_count_--;
    // The pages go back to the system, and read as zero and unwritten from now on.
    void *pages = reinterpret_cast<void *>(base_ + a.start);
    const uint64_t span = round_up(a.bytes, granule);
    madvise(pages, span, MADV_DONTNEED);
    if (written_) madvise(written_ + a.start, span, MADV_DONTNEED);
    if (kind_ == Kind::pinned) mprotect(pages, span, PROT_NONE);
    live_.erase(found);
    return true;
}

void Arena::release_all() {
    for (;;) {
        uint64_t offset;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (live_.empty()) return;
            offset = live_.begin()->first;
        }
        release(offset);
    }
}

Verdict Arena::reach(uintptr_t real, uint64_t bytes) const {
    const uint64_t offset = real - base_;
    const uint32_t index = owner_[offset / granule];
    if (index == 0) return Verdict::outside;
    const Allocation &a = allocations_[index];
    if (offset < a.start || offset - a.start > a.bytes || bytes > a.bytes - (offset - a.start)) return Verdict::outside;
    return a.live.load(std::memory_order_relaxed) ? Verdict::ok : Verdict::freed;
}

bool Arena::any_unwritten(uintptr_t real, uint64_t bytes) const {
    if (!written_) return false;
    const uint8_t *w = written_ + (real - base_);
    switch (bytes) {
    case 1: return *w == 0;
    case 2: { uint16_t v; memcpy(&v, w, 2); return v != 0x0101; }
    case 4: { uint32_t v; memcpy(&v, w, 4); return v != 0x01010101u; }
    case 8: { uint64_t v; memcpy(&v, w, 8); return v != 0x0101010101010101u; }
    default: return memchr(w, 0, bytes) != nullptr;
    }
}

Verdict Arena::readable(uintptr_t real, uint64_t bytes) const {
    const Verdict v = reach(real, bytes);
    if (v != Verdict::ok) return v;
    return any_unwritten(real, bytes) ? Verdict::uninitialised : Verdict::ok;
}

void Arena::mark_written(uintptr_t real, uint64_t bytes) {
    if (!written_) return;
    uint8_t *w = written_ + (real - base_);
    switch (bytes) {
    case 1: *w = 1; break;
    case 2: memset(w, 1, 2); break;
    case 4: memset(w, 1, 4); break;
    case 8: memset(w, 1, 8); break;
    case 16: memset(w, 1, 16); break;
    default: memset(w, 1, bytes);
    }
}

namespace {

constexpr uint32_t several = 1u << 31;  // in a reader: not this block alone
constexpr uint32_t block_bits = 20;

uint32_t mark(uint32_t tag, uint64_t block) { return tag << block_bits | static_cast<uint32_t>(block & ((1u << block_bits) - 1)); }

bool same_launch(uint32_t a, uint32_t b) { return ((a ^ b) & ~several) >> block_bits == 0; }

}  // namespace

// Blocks on other host threads touch the same records; where two meet, one of them sees the other.
Arena::Touch Arena::touch(uintptr_t real, uint64_t bytes, bool write, uint32_t tag, uint64_t block) {
    Touched *touched = touched_;
    if (!touched) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!touched_) touched_ = static_cast<Touched *>(reserve(span_ * sizeof(Touched), PROT_READ | PROT_WRITE));
        touched = touched_;
    }
    touched += real - base_;
    const uint32_t mine = mark(tag, block);
    for (uint64_t i = 0; i < bytes; i++) {
        Touched &t = touched[i];
        const uint32_t writer = __atomic_load_n(&t.writer, __ATOMIC_RELAXED);
        if (writer != mine && same_launch(writer, mine)) return {true, true, writer & ((1u << block_bits) - 1)};
        const uint32_t reader = __atomic_load_n(&t.reader, __ATOMIC_RELAXED);
        const bool read_by_others = reader != mine && same_launch(reader, mine);
        if (write) {
            if (read_by_others) return {true, false, reader & ((1u << block_bits) - 1)};
            if (writer != mine) __atomic_store_n(&t.writer, mine, __ATOMIC_RELAXED);
        } else if (reader != mine && !(read_by_others && (reader & several))) {
            __atomic_store_n(&t.reader, read_by_others ? mine | several : mine, __ATOMIC_RELAXED);
        }
    }
    return {};
}

void Arena::forget_touches() {
    if (Touched *touched = touched_) madvise(touched, span_ * sizeof(Touched), MADV_DONTNEED);
}

std::string Arena::describe(uintptr_t real) const {
    const uint64_t offset = real - base_;
    const char *what = kind_ == Kind::device ? "device" : "pinned host";
    const uint32_t index = owner_[offset / granule];
    char text[160];
    if (index == 0) {
        const uint64_t above = (offset / granule + 1) * granule;
        if (above < span_ && owner_[above / granule] != 0)
            snprintf(text, sizeof text, "%llu bytes before a %s allocation of %llu bytes", static_cast<unsigned long long>(above - offset), what,
                     static_cast<unsigned long long>(allocations_[owner_[above / granule]].bytes));
        else
            snprintf(text, sizeof text, "%s memory that is not allocated", what);
        return text;
    }
    const Allocation &a = allocations_[index];
    const unsigned long long size = a.bytes;
    const char *freed = a.live ? "" : "freed ";
    const uint64_t next = round_up(a.start + a.bytes, granule) + red_zone;
    const uint32_t neighbour = next < span_ ? owner_[next / granule] : 0;
    if (offset >= a.start + a.bytes && neighbour != 0 && next - offset < offset - a.start - a.bytes)
        snprintf(text, sizeof text, "%llu bytes before a %s allocation of %llu bytes", static_cast<unsigned long long>(next - offset), what,
                 static_cast<unsigned long long>(allocations_[neighbour].bytes));
    else if (offset >= a.start + a.bytes)
        snprintf(text, sizeof text, "%llu bytes past the end of a %s%s allocation of %llu bytes",
                 static_cast<unsigned long long>(offset - a.start - a.bytes), freed, what, size);
    else
        snprintf(text, sizeof text, "offset %llu of a %s%s allocation of %llu bytes", static_cast<unsigned long long>(offset - a.start), freed,
                 what, size);
    return text;
}

}  // namespace sim
