// Device memory and pinned host memory of the simulated machine.
//
// An Arena is a reserved range of addresses with an allocator over it. Every allocation has a red zone behind it and
// addresses are not reused until the range has been gone through once, so an access out of bounds or after a free
// meets a hole. Beside the bytes lies one more byte for each, which says whether it was written.
//
// The device addresses that the driver API hands out ("handles") are not the addresses of these bytes: they lie in a
// range that nothing may touch, at a fixed distance. Host code that follows one faults at once; the launch moves a kernel's pointer
// parameters to the real bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace sim {

struct Allocation {
    uint64_t start, bytes;  // offset in the arena
    std::atomic<bool> live;
};

enum class Verdict { ok, outside, freed, uninitialised };

class Arena {
public:
    enum class Kind { device, pinned };

    // The handles of an arena start at handle_base. Nothing is committed before it is used.
    Arena(Kind kind, uint64_t span, uintptr_t handle_base);
    ~Arena();
    Arena(const Arena &) = delete;

    // allocate returns the offset of `bytes` fresh bytes (not 0), or -1 if the capacity or the range is used up.
    int64_t allocate(uint64_t bytes);
    // release frees the allocation that starts at offset; false if none does.
    bool release(uint64_t offset);
    void release_all();
    void set_capacity(uint64_t bytes);
    uint64_t capacity() const { return capacity_; }
    uint64_t live_bytes() const { return live_bytes_; }
    uint64_t live_count() const { return live_count_; }

    bool holds(uintptr_t real) const { return real - base_ < span_; }
    bool holds_handle(uintptr_t handle) const { return handle - handle_base_ < span_; }
    uintptr_t real_of_handle(uintptr_t handle) const { return handle - handle_base_ + base_; }
    uintptr_t handle_of_real(uintptr_t real) const { return real - base_ + handle_base_; }
    uint64_t offset(uintptr_t real) const { return real - base_; }
    uintptr_t at(uint64_t offset) const { return base_ + offset; }

    // reach says whether all of [real, real + bytes) lies in one live allocation.
    Verdict reach(uintptr_t real, uint64_t bytes) const;
    // readable is reach, and every byte was written. Host memory always counts as written.
    Verdict readable(uintptr_t real, uint64_t bytes) const;
    void mark_written(uintptr_t real, uint64_t bytes);
    bool any_unwritten(uintptr_t real, uint64_t bytes) const;

    // Races between blocks. A launch has a tag from 1 to last_tag; touch records an access by one of its blocks, and returns
    // whether another block of the same launch has accessed one of the bytes, with either writing. After last_tag, forget_touches begins anew.
    static constexpr uint32_t last_tag = 2047;
    struct Touch {
        bool conflict, by_write;
        uint32_t block;  // modulo 2^20
    };
    Touch touch(uintptr_t real, uint64_t bytes, bool write, uint32_t tag, uint64_t block);
    void forget_touches();

    // describe words the place of an address for a fault's report: "8 bytes past the end of a device allocation of 1024 bytes".
    std::string describe(uintptr_t real) const;

private:
    static constexpr uint64_t granule = 4096;  // a page, so that one allocation's pages are its own
    static constexpr uint64_t red_zone = 64 << 10;
    static constexpr uint32_t max_allocations = 1 << 20;

    Kind kind_;
    uint64_t span_;
    uintptr_t handle_base_, base_;
    uint8_t *written_;        // one byte a byte; device memory only
    // For each byte, the tag and block of its latest write and of its latest read; reserved at the first touch.
    struct Touched {
        uint32_t writer, reader;
    };
    std::atomic<Touched *> touched_ = nullptr;
    uint32_t *owner_;         // by granule: index of the allocation it belongs to, red zone included; 0 is none
    Allocation *allocations_; // by index, never moved
    uint32_t next_index_ = 1;
    mutable std::mutex mutex_;
    std::map<uint64_t, uint32_t> live_;  // by offset
    uint64_t cursor_ = granule, capacity_;
    std::atomic<uint64_t> live_bytes_ = 0, live_count_ = 0;

    uint64_t find_gap(uint64_t need);
};

}  // namespace sim
