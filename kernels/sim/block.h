// One host thread's engine for running thread blocks: every CUDA thread of the block is a fibre, and barriers and warp operations switch between them.
#pragma once

#include <stdint.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory.h"
#include "race.h"
#include "simt.h"

namespace sim {

// CUDA's numbers for what a kernel can do wrong.
enum FaultCode {
    fault_illegal_address = 700,
    fault_launch_timeout = 702,
    fault_misaligned_address = 716,
    fault_launch_failed = 719,
};

struct Fault {
    int code = 0;
    uint64_t block = 0;  // linear index
    std::string text;
};

// Which checks cost too much, or are too strict, to be always on.
struct Checks {
    bool races = true;  // in shared memory, and between blocks in global memory
    bool uninitialised_global = true;
    bool uninitialised_shared = false;
};

// One launch of a kernel, shared by the host threads that run its blocks.
struct Launch {
    const simt::Kernel *kernel;
    simt::Index grid, block;
    uint32_t dynamic_shared_bytes, shared_limit;
    std::vector<void *> arguments;
    std::vector<uint64_t> argument_words;
    Arena *device, *host;
    uint64_t seed;
    uint64_t step_limit;
    uint32_t tag;  // for races between blocks
    Checks checks;
    std::atomic<uint64_t> next_block = 0, finished_blocks = 0;
    std::atomic<bool> cancelled = false;

    uint64_t blocks() const { return static_cast<uint64_t>(grid.x) * grid.y * grid.z; }
    unsigned threads() const { return block.x * block.y * block.z; }
};

class Worker {
public:
    Worker();
    ~Worker();
    Worker(const Worker &) = delete;

    // run runs one block to its end. A fault ends it early.
    Fault run(const Launch &launch, uint64_t block);

    // The rest is called from inside a fibre.
    static Worker *current() { return running_; }

    simt::Index thread_index() const { return fibre_->index; }
    simt::Index block_index() const { return block_index_; }
    const Launch &launch() const { return *launch_; }

    void *shared_variable(const simt::SharedSite *site);
    void *dynamic_shared() const { return reinterpret_cast<void *>(shared_base_ + dynamic_offset); }

    void block_barrier(simt::Site site);
    void named_barrier(int id, int threads, bool wait, simt::Site site);
    void warp_barrier(unsigned mask, simt::Site site);
    void pause();

    // What a warp operation does once its lanes have met: it reads `in` and writes `out` of each lane in mask.
    struct Lane {
        std::array<uint64_t, 6> in;
        std::array<uint64_t, 2> out;
    };
    enum class Operation : uint8_t { none, barrier, shuffle, ballot, reduce, load_matrix, mma_k32, mma_k16 };
    using Lanes = std::array<Lane *, 32>;
    using Apply = void (*)(Worker &, Lanes &, unsigned mask, unsigned variant);
    // meet waits for all lanes of mask to come to the same operation, which the last of them applies.
    Lane &meet(Operation operation, unsigned variant, unsigned mask, simt::Site site, Apply apply, const std::array<uint64_t, 6> &in);
    unsigned lane_number() const { return fibre_->number & 31; }

    void copy_async(uintptr_t shared, uintptr_t global, unsigned bytes, unsigned read);
    void copy_commit();
    void copy_wait(int pending);
    void copy_wait_all();

    enum class Access { read, write, atomic };
    // access checks one access by the running thread (or, for a matrix row, by the lane that named it).
    void access(uintptr_t p, uint64_t bytes, Access kind, const void *pc) {
        Fibre &f = *fibre_;
        if (p - f.stack_low >= stack_bytes) access_by(f, p, bytes, kind, pc);
    }
    void matrix_row(unsigned lane, uintptr_t row);
    void release_flag(uintptr_t flag);
    void acquire_flag(uintptr_t flag);
    void check_stack(uintptr_t stack_pointer);

    uint32_t carry = 0;

    [[noreturn]] void fault(int code, const std::string &what, const void *pc = nullptr);

    // For the fibres' entry only.
    void run_fibre();

private:
    enum class State : uint8_t { ready, running, at_block_barrier, at_named_barrier, at_warp_operation, done };
    struct Copy {
        uintptr_t shared, global;
        uint8_t bytes, read;
    };
    struct Fibre {
        void *stack_pointer;
        uintptr_t stack_low;
        simt::Index index;
        uint16_t number;
        State state;
        Operation operation;
        uint8_t variant;
        unsigned mask;
        simt::Site site;
        Apply apply;
        Lane lane;
        std::vector<std::vector<Copy>> groups;  // committed copies, oldest first
        std::vector<Copy> open_group;
    };
    struct Warp {
        unsigned exists, waiting, exited;
    };
    struct NamedBarrier {
        int expected = 0, arrived = 0;
        simt::Site site{};
        std::vector<uint16_t> waiting;
        RaceDetector::Token token;
    };
    struct SharedVariable {
        const simt::SharedSite *site;
        uint32_t offset, bytes;
    };
    // What is known of a byte of shared memory.
    enum Shadow : uint8_t { hole = 0, fresh = 1, copying = 2, written = 3 };

    static constexpr uint64_t stack_bytes = 256 << 10;
    static constexpr unsigned max_threads = 1024;
    static constexpr uint32_t shared_bytes = 512 << 10;
    static constexpr uint32_t shared_red_zone = 256;
    // Aligned to 16 bytes and no more, as the contract says.
    static constexpr uint32_t dynamic_offset = 1024 + 16;

    const Launch *launch_ = nullptr;
    uint64_t block_ = 0;
    simt::Index block_index_{};
    Fibre *fibre_ = nullptr;  // the running one
    void *main_stack_ = nullptr;
    unsigned live_ = 0;
    std::vector<Fibre> fibres_;
    std::array<Warp, 32> warps_{};
    unsigned threads_ = 0;
    uintptr_t stacks_;

    // The ready fibres, a ring of at most one entry each.
    std::array<uint16_t, max_threads> ready_{};
    unsigned ready_head_ = 0, ready_count_ = 0;
    uint64_t random_ = 0;
    uint64_t idle_turns_ = 0, steps_ = 0;

    unsigned block_barrier_count_ = 0;
    simt::Site block_barrier_site_{};
    std::array<NamedBarrier, 16> named_;

    uintptr_t shared_base_;
    std::unique_ptr<uint8_t[]> shadow_;
    uint32_t shared_end_ = 0, static_bytes_ = 0;
    std::vector<SharedVariable> variables_;
    std::unique_ptr<RaceDetector> races_;
    std::unordered_map<uintptr_t, RaceDetector::Token> flags_;
    std::vector<uint16_t> scratch_list_;

    Fault fault_;

    // The worker whose block runs on this host thread. A fibre never changes threads.
    __attribute__((tls_model("initial-exec"))) static thread_local Worker *running_;

    void set_up(const Launch &launch, uint64_t block);
    void set_up_fibre(Fibre &f, unsigned number);
    void open_shared(uint32_t offset, uint32_t bytes);
    uint64_t random();
    void make_ready(Fibre &f);
    Fibre *take_ready();
    void block_here(State state);
    void switch_to(Fibre *next);
    void complete(Fibre &last);
    bool lanes_agree(const Fibre &f) const;
    void check_exit(Fibre &f);
    [[noreturn]] void deadlock();
    [[noreturn]] void too_many_steps();
    void perform(const std::vector<Copy> &copies);
    void access_by(Fibre &f, uintptr_t p, uint64_t bytes, Access kind, const void *pc);
    void shared_access(Fibre &f, uintptr_t p, uint64_t bytes, Access kind, const void *pc);
    void arena_access(Arena &arena, uintptr_t p, uint64_t bytes, Access kind, const void *pc);
    void record(unsigned thread, uint32_t offset, uint32_t bytes, RaceDetector::Access kind, const void *pc);
    std::string describe_shared(uint32_t offset) const;
};

}  // namespace sim
