#include "block.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fibre.h"

namespace sim {
namespace {

std::string format(const char *pattern, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

std::string place(simt::Site site) { return format("%s:%u", base_name(site.file_name()), static_cast<unsigned>(site.line())); }

bool same(simt::Site a, simt::Site b) { return a.line() == b.line() && a.column() == b.column() && strcmp(a.file_name(), b.file_name()) == 0; }

// splitmix64: seeds well from any number.
uint64_t scramble(uint64_t v) {
    v += 0x9e3779b97f4a7c15u;
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

// This library's own segments: kernels may read their constant tables there.
struct Image {
    uintptr_t low = UINTPTR_MAX, high = 0, load = 0;

    Image() { dl_iterate_phdr(visit, this); }

    static int visit(dl_phdr_info *info, size_t, void *data) {
        auto *image = static_cast<Image *>(data);
        const uintptr_t here = reinterpret_cast<uintptr_t>(&visit);
        uintptr_t low = UINTPTR_MAX, high = 0;
        for (int i = 0; i < info->dlpi_phnum; i++) {
            const auto &segment = info->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD) continue;
            const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
            low = start < low ? start : low;
            high = start + segment.p_memsz > high ? start + segment.p_memsz : high;
        }
        if (here < low || here >= high) return 0;
        image->low = low;
        image->high = high;
        image->load = info->dlpi_addr;
        return 1;
    }

    bool holds(uintptr_t p) const { return p >= low && p < high; }
};

const Image &image() {
    static const Image self;
    return self;
}

const char *verb(Worker::Access kind) {
    switch (kind) {
    case Worker::Access::read: return "read";
    case Worker::Access::write: return "write";
    default: return "atomic access";
    }
}

// first_not_written skips over bytes marked 3 (Worker::written), all of them in the common case.
uint64_t first_not_written(const uint8_t *shadow, uint64_t bytes) {
    uint64_t v = 0, all = 0x0303030303030303u;
    switch (bytes) {
    case 1: return *shadow == 3;
    case 2: memcpy(&v, shadow, 2); all &= 0xffff; break;
    case 4: memcpy(&v, shadow, 4); all &= 0xffffffffu; break;
    case 8: memcpy(&v, shadow, 8); break;
    default: return 0;
    }
    return v == all ? bytes : 0;
}

void fibre_entry() { Worker::current()->run_fibre(); }

}  // namespace

thread_local Worker *Worker::running_ = nullptr;

Worker::Worker() : fibres_(max_threads), shadow_(new uint8_t[shared_bytes]()) {
    const auto map = [](uint64_t bytes) {
        void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) abort();
        return reinterpret_cast<uintptr_t>(p);
    };
    stacks_ = map(stack_bytes * max_threads);
    // A page that nothing may touch ends each stack.
    for (unsigned i = 0; i < max_threads; i++) mprotect(reinterpret_cast<void *>(stacks_ + i * stack_bytes), 4096, PROT_NONE);
    shared_base_ = map(shared_bytes);
    image();
}

Worker::~Worker() {
    munmap(reinterpret_cast<void *>(stacks_), stack_bytes * max_threads);
    munmap(reinterpret_cast<void *>(shared_base_), shared_bytes);
}

uint64_t Worker::random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
}

Fault Worker::run(const Launch &launch, uint64_t block) {
    set_up(launch, block);
    running_ = this;
    Fibre *first = take_ready();
    first->state = State::running;
    fibre_ = first;
    switch_stacks(&main_stack_, first->stack_pointer);
    running_ = nullptr;
    return fault_;
}

void Worker::set_up(const Launch &launch, uint64_t block) {
    launch_ = &launch;
    block_ = block;
    block_index_ = {static_cast<unsigned>(block % launch.grid.x), static_cast<unsigned>(block / launch.grid.x % launch.grid.y),
                    static_cast<unsigned>(block / launch.grid.x / launch.grid.y)};
    threads_ = live_ = launch.threads();
    fault_ = {};
    random_ = 0;
    if (launch.seed != 0) {
        uint64_t h = scramble(launch.seed);
        for (const char *c = launch.kernel->name; *c; c++) h = scramble(h ^ static_cast<uint8_t>(*c));
        random_ = scramble(h ^ block) | 1;
    }
    idle_turns_ = steps_ = 0;
    block_barrier_count_ = 0;
    for (NamedBarrier &b : named_) b = {};
    flags_.clear();

    memset(shadow_.get(), hole, shared_end_);
    variables_.clear();
    static_bytes_ = 0;
    shared_end_ = dynamic_offset;
    if (launch.dynamic_shared_bytes > 0) open_shared(dynamic_offset, launch.dynamic_shared_bytes);
    if (launch.checks.races) {
        if (!races_) races_.reset(new RaceDetector(shared_bytes));
        races_->start_block(threads_);
    } else {
        races_.reset();
    }

    for (unsigned w = 0; w * 32 < threads_; w++) {
        const unsigned lanes = threads_ - w * 32;
        warps_[w] = {lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1, 0, 0};
    }
    ready_head_ = ready_count_ = 0;
    for (unsigned i = 0; i < threads_; i++) set_up_fibre(fibres_[i], i);
}

void Worker::set_up_fibre(Fibre &f, unsigned number) {
    const simt::Index dim = launch_->block;
    f.number = static_cast<uint16_t>(number);
    f.index = {number % dim.x, number / dim.x % dim.y, number / dim.x / dim.y};
    f.stack_low = stacks_ + number * stack_bytes;
    f.groups.clear();
    f.open_group.clear();
    // Tops are staggered, or all stacks would compete for the same sets of the cache.
    const uint64_t stagger = (number * 5 % 64) * 64;
    f.stack_pointer = fresh_stack(reinterpret_cast<void *>(f.stack_low), stack_bytes - stagger, fibre_entry);
    make_ready(f);
}

void Worker::run_fibre() {
    launch_->kernel->run(launch_->arguments.data());
    Fibre &f = *fibre_;
    copy_wait_all();
    f.state = State::done;
    live_--;
    idle_turns_ = 0;
    check_exit(f);
    void *never_resumed;
    if (live_ == 0) switch_stacks(&never_resumed, main_stack_);
    Fibre *next = take_ready();
    if (!next) deadlock();
    next->state = State::running;
    fibre_ = next;
    switch_stacks(&never_resumed, next->stack_pointer);
    abort();
}

// check_exit finds those who wait for the thread that has just returned.
void Worker::check_exit(Fibre &f) {
    if (block_barrier_count_ > 0)
        fault(fault_launch_failed, "returned while other threads wait in __syncthreads at " + place(block_barrier_site_));
    Warp &warp = warps_[f.number / 32];
    const unsigned lane = f.number & 31;
    warp.exited |= 1u << lane;
    for (unsigned left = warp.waiting; left; left &= left - 1) {
        const Fibre &g = fibres_[f.number / 32 * 32 + static_cast<unsigned>(__builtin_ctz(left))];
        if (g.mask >> lane & 1)
            fault(fault_launch_failed, format("returned while lane %u waits for it in a warp operation at %s", g.number & 31u, place(g.site).c_str()));
    }
}

void Worker::fault(int code, const std::string &what, const void *pc) {
    const simt::Index &t = fibre_->index;
    std::string text = format("%s: block (%u,%u,%u) thread (%u,%u,%u): ", launch_->kernel->name, block_index_.x, block_index_.y, block_index_.z, t.x, t.y, t.z) + what;
    if (pc) text += format(" [+0x%llx]", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pc) - 1 - image().load));
    fault_ = {code, block_, text};
    void *never_resumed;
    switch_stacks(&never_resumed, main_stack_);
    abort();
}

void Worker::make_ready(Fibre &f) {
    f.state = State::ready;
    ready_[(ready_head_ + ready_count_++) % max_threads] = f.number;
}

Worker::Fibre *Worker::take_ready() {
    if (ready_count_ == 0) return nullptr;
    if (random_ != 0) std::swap(ready_[ready_head_], ready_[(ready_head_ + random() % ready_count_) % max_threads]);
    Fibre &f = fibres_[ready_[ready_head_]];
    ready_head_ = (ready_head_ + 1) % max_threads;
    ready_count_--;
    return &f;
}

void Worker::switch_to(Fibre *next) {
    Fibre *previous = fibre_;
    next->state = State::running;
    fibre_ = next;
    if (previous != next) switch_stacks(&previous->stack_pointer, next->stack_pointer);
}

void Worker::block_here(State state) {
    fibre_->state = state;
    Fibre *next = take_ready();
    if (!next) deadlock();
    switch_to(next);
}

void Worker::deadlock() {
    for (unsigned i = 0; i < threads_; i++) {
        const Fibre &f = fibres_[i];
        if (f.state != State::at_warp_operation) continue;
        fibre_ = &fibres_[i];
        for (unsigned lane = 0; lane < 32; lane++) {
            if (!(f.mask >> lane & 1)) continue;
            const Fibre &g = fibres_[i / 32 * 32 + lane];
            if (g.state == State::at_warp_operation && g.mask == f.mask && same(g.site, f.site)) continue;
            const char *where = g.state == State::at_warp_operation ? "another warp operation" : "a barrier";
            fault(fault_launch_failed, format("deadlock: the warp operation at %s (mask %08x) waits for lane %u, which waits in %s at %s", place(f.site).c_str(),
                                              f.mask, lane, where, place(g.site).c_str()));
        }
    }
    for (unsigned i = 0; i < threads_; i++) {
        const Fibre &f = fibres_[i];
        if (f.state == State::done) continue;
        fibre_ = &fibres_[i];
        fault(fault_launch_failed, format("deadlock: waits in a barrier at %s, which not all threads reach", place(f.site).c_str()));
    }
    abort();
}

void Worker::block_barrier(simt::Site site) {
    Fibre &f = *fibre_;
    f.site = site;
    if (block_barrier_count_ == 0) block_barrier_site_ = site;
    if (!same(site, block_barrier_site_))
        fault(fault_launch_failed, "divergent barrier: __syncthreads at " + place(site) + " while other threads wait in the one at " + place(block_barrier_site_));
    if (live_ != threads_) fault(fault_launch_failed, format("divergent barrier: __syncthreads at %s after %u threads have returned", place(site).c_str(), threads_ - live_));
    if (++block_barrier_count_ < threads_) {
        block_here(State::at_block_barrier);
        return;
    }
    block_barrier_count_ = 0;
    idle_turns_ = 0;
    scratch_list_.clear();
    for (unsigned i = 0; i < threads_; i++) {
        scratch_list_.push_back(static_cast<uint16_t>(i));
        if (&fibres_[i] != &f) make_ready(fibres_[i]);
    }
    if (races_) races_->join(scratch_list_);
}

void Worker::named_barrier(int id, int threads, bool wait, simt::Site site) {
    Fibre &f = *fibre_;
    f.site = site;
    if (id < 1 || id > 15) fault(fault_launch_failed, format("named barrier %d at %s: ids are 1 to 15", id, place(site).c_str()));
    if (threads <= 0 || threads % 32 != 0 || threads > static_cast<int>(threads_))
        fault(fault_launch_failed, format("named barrier %d at %s: %d is not a number of whole warps of this block", id, place(site).c_str(), threads));
    NamedBarrier &b = named_[static_cast<size_t>(id)];
    if (b.arrived == 0) {
        b.expected = threads;
        b.site = site;
    }
    if (b.expected != threads)
        fault(fault_launch_failed, format("named barrier %d: %d threads at %s, %d at %s", id, threads, place(site).c_str(), b.expected, place(b.site).c_str()));
    if (races_) races_->release(b.token, f.number);
    b.arrived++;
    if (wait) b.waiting.push_back(f.number);
    if (b.arrived < b.expected) {
        if (wait) block_here(State::at_named_barrier);
        return;
    }
    idle_turns_ = 0;
    for (uint16_t t : b.waiting) {
        if (races_) races_->acquire(b.token, t);
        if (t != f.number) make_ready(fibres_[t]);
    }
    b = {};
}

void Worker::pause() {
    // Whoever can go on does so at its first turn, so a few rounds without progress are enough to tell.
    if (++idle_turns_ > uint64_t{1024} * threads_) fault(fault_launch_timeout, "waits for ever: no thread of the block makes progress");
    make_ready(*fibre_);
    switch_to(take_ready());
}

bool Worker::lanes_agree(const Fibre &f) const {
    const Fibre *warp = &fibres_[f.number / 32 * 32];
    for (unsigned left = f.mask; left; left &= left - 1) {
        const Fibre &g = warp[__builtin_ctz(left)];
        if (g.mask != f.mask || g.operation != f.operation || g.variant != f.variant || !same(g.site, f.site)) return false;
    }
    return true;
}

Worker::Lane &Worker::meet(Operation operation, unsigned variant, unsigned mask, simt::Site site, Apply apply, const std::array<uint64_t, 6> &in) {
    Fibre &f = *fibre_;
    Warp &warp = warps_[f.number / 32];
    const unsigned lane = f.number & 31;
    f.site = site;
    if (!(mask >> lane & 1)) fault(fault_launch_failed, format("warp operation at %s: mask %08x does not name the calling lane %u", place(site).c_str(), mask, lane));
    if (mask & ~warp.exists)
        fault(fault_launch_failed, format("warp operation at %s: mask %08x names lane %d, which the block does not have", place(site).c_str(), mask,
                                          __builtin_ctz(mask & ~warp.exists)));
    if (mask & warp.exited)
        fault(fault_launch_failed, format("warp operation at %s: mask %08x names lane %d, which has returned", place(site).c_str(), mask, __builtin_ctz(mask & warp.exited)));
    f.operation = operation;
    f.variant = static_cast<uint8_t>(variant);
    f.mask = mask;
    f.apply = apply;
    f.lane.in = in;
    warp.waiting |= 1u << lane;
    if ((warp.waiting & mask) == mask && lanes_agree(f))
        complete(f);
    else
        block_here(State::at_warp_operation);
    return f.lane;
}

void Worker::complete(Fibre &last) {
    Warp &warp = warps_[last.number / 32];
    Fibre *fibres = &fibres_[last.number / 32 * 32];
    Lanes lanes{};
    for (unsigned left = last.mask; left; left &= left - 1) {
        const unsigned i = static_cast<unsigned>(__builtin_ctz(left));
        lanes[i] = &fibres[i].lane;
    }
    last.apply(*this, lanes, last.mask, last.variant);
    idle_turns_ = 0;
    warp.waiting &= ~last.mask;
    for (unsigned left = last.mask; left; left &= left - 1) {
        Fibre &g = fibres[__builtin_ctz(left)];
        if (&g != &last) make_ready(g);
    }
}

void Worker::warp_barrier(unsigned mask, simt::Site site) {
    meet(Operation::barrier, 0, mask, site, [](Worker &w, Lanes &, unsigned named, unsigned) {
        if (!w.races_) return;
        w.scratch_list_.clear();
        for (unsigned left = named; left; left &= left - 1)
            w.scratch_list_.push_back(static_cast<uint16_t>(w.fibre_->number / 32 * 32 + static_cast<unsigned>(__builtin_ctz(left))));
        w.races_->join(w.scratch_list_);
    }, {});
}

void *Worker::shared_variable(const simt::SharedSite *site) {
    for (const SharedVariable &v : variables_)
        if (v.site == site) return reinterpret_cast<void *>(shared_base_ + v.offset);
    const uint32_t align = site->align < 16 ? 16 : site->align;
    // 16 bytes past a multiple of the alignment's double, so that no more than the declared alignment is met by luck.
    uint32_t offset = (shared_end_ + shared_red_zone + 2 * align - 1) / (2 * align) * (2 * align);
    if (align == 16) offset += 16;
    static_bytes_ += site->bytes;
    if (offset + site->bytes + shared_red_zone > shared_bytes || static_bytes_ + launch_->dynamic_shared_bytes > launch_->shared_limit)
        fault(fault_launch_failed, format("shared memory: %u static and %u dynamic bytes are over the limit of %u", static_bytes_, launch_->dynamic_shared_bytes, launch_->shared_limit));
    open_shared(offset, site->bytes);
    variables_.push_back({site, offset, site->bytes});
    return reinterpret_cast<void *>(shared_base_ + offset);
}

// open_shared makes bytes of shared memory accessible and fills them with what a kernel must not rely on.
void Worker::open_shared(uint32_t offset, uint32_t bytes) {
    memset(shadow_.get() + offset, fresh, bytes);
    memset(reinterpret_cast<void *>(shared_base_ + offset), random_ != 0 ? static_cast<int>(random() & 0xff) : 0xA5, bytes);
    shared_end_ = offset + bytes;
}

void Worker::too_many_steps() {
    fault(fault_launch_timeout, format("the block made more than %llu memory accesses", static_cast<unsigned long long>(launch_->step_limit)));
}

void Worker::check_stack(uintptr_t stack_pointer) {
    constexpr uintptr_t margin = 16 << 10;
    if (stack_pointer - fibre_->stack_low < margin) fault(fault_launch_failed, format("more than %llu KiB of stack", static_cast<unsigned long long>(stack_bytes - margin) >> 10));
}

void Worker::access_by(Fibre &f, uintptr_t p, uint64_t bytes, Access kind, const void *pc) {
    if (++steps_ > launch_->step_limit) too_many_steps();
    if (p - shared_base_ < shared_bytes) return shared_access(f, p, bytes, kind, pc);
    if (launch_->device->holds(p)) return arena_access(*launch_->device, p, bytes, kind, pc);
    if (launch_->host->holds(p)) return arena_access(*launch_->host, p, bytes, kind, pc);
    if (image().holds(p)) {
        if (kind == Access::read) return;
        fault(fault_illegal_address, format("%s of %llu bytes in constant memory", verb(kind), static_cast<unsigned long long>(bytes)), pc);
    }
    const char *where = "an address that is no device memory";
    if (p - stacks_ < stack_bytes * max_threads) where = "the local memory of another thread";
    else if (launch_->device->holds_handle(p)) where = "a device address that did not come as a kernel parameter, or lies outside its allocation";
    else if (launch_->host->holds_handle(p)) where = "a pinned-memory address that did not come as a kernel parameter";
    else if (p < 65536) where = "a null pointer";
    fault(fault_illegal_address, format("%s of %llu bytes at %#llx: %s", verb(kind), static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(p), where), pc);
}

void Worker::arena_access(Arena &arena, uintptr_t p, uint64_t bytes, Access kind, const void *pc) {
    const bool must_be_written = kind != Access::write && launch_->checks.uninitialised_global;
    const Verdict verdict = must_be_written ? arena.readable(p, bytes) : arena.reach(p, bytes);
    if (verdict == Verdict::ok) {
        if (kind != Access::read) arena.mark_written(p, bytes);
        if (!launch_->checks.races || kind == Access::atomic || launch_->blocks() == 1) return;
        const Arena::Touch touch = arena.touch(p, bytes, kind == Access::write, launch_->tag, block_);
        if (!touch.conflict) return;
        fault(fault_launch_failed, format("race between blocks: %s of %llu bytes at ", verb(kind), static_cast<unsigned long long>(bytes)) + arena.describe(p) +
                                       format(", which block %u of the same launch %s", touch.block, touch.by_write ? "writes" : "reads"), pc);
    }
    const char *what = verdict == Verdict::uninitialised ? "uninitialised " : "";
    fault(fault_illegal_address, format("%s%s of %llu bytes at %#llx: ", what, verb(kind), static_cast<unsigned long long>(bytes),
                                        static_cast<unsigned long long>(arena.handle_of_real(p))) + arena.describe(p), pc);
}

std::string Worker::describe_shared(uint32_t offset) const {
    // The variable that ends closest before the address, or holds it.
    std::string name = "dynamic shared memory";
    uint32_t start = dynamic_offset, bytes = launch_->dynamic_shared_bytes;
    for (const SharedVariable &v : variables_) {
        if (v.offset <= offset && (v.offset > start || bytes == 0 || offset < start)) {
            name = std::string("shared variable ") + v.site->name;
            start = v.offset;
            bytes = v.bytes;
        }
    }
    if (offset < start) return format("%u bytes before the start of %s (%u bytes)", start - offset, name.c_str(), bytes);
    if (offset >= start + bytes) return format("%u bytes past the end of %s (%u bytes)", offset - start - bytes, name.c_str(), bytes);
    return format("offset %u of %s (%u bytes)", offset - start, name.c_str(), bytes);
}

void Worker::record(unsigned thread, uint32_t offset, uint32_t bytes, RaceDetector::Access kind, const void *pc) {
    if (!races_) return;
    const auto conflict = races_->access(thread, offset, bytes, kind);
    if (!conflict.found) return;
    const char *names[] = {"read", "write", "atomic access"};
    const simt::Index &other = fibres_[conflict.thread].index;
    fault(fault_launch_failed, format("race: %s at %s and %s by thread (%u,%u,%u) have no barrier between them", names[static_cast<int>(kind)], describe_shared(offset).c_str(),
                                      names[static_cast<int>(conflict.access)], other.x, other.y, other.z), pc);
}

void Worker::shared_access(Fibre &f, uintptr_t p, uint64_t bytes, Access kind, const void *pc) {
    const uint32_t offset = static_cast<uint32_t>(p - shared_base_);
    uint8_t *shadow = shadow_.get() + offset;
    const uint64_t unknown = first_not_written(shadow, bytes);
    for (uint64_t i = unknown; i < bytes; i++) {
        const uint8_t s = offset + i < shared_bytes ? shadow[i] : static_cast<uint8_t>(hole);
        if (s == written) continue;
        const uint32_t at = offset + static_cast<uint32_t>(i);
        if (s == hole) fault(fault_illegal_address, format("%s of %llu bytes in shared memory, ", verb(kind), static_cast<unsigned long long>(bytes)) + describe_shared(at), pc);
        if (s == copying) fault(fault_launch_failed, format("%s at %s while an asynchronous copy into it is under way", verb(kind), describe_shared(at).c_str()), pc);
        if (kind == Access::write) {
            shadow[i] = written;
        } else if (launch_->checks.uninitialised_shared) {
            fault(fault_illegal_address, format("uninitialised %s of %llu bytes at ", verb(kind), static_cast<unsigned long long>(bytes)) + describe_shared(at), pc);
        }
    }
    const RaceDetector::Access kinds[] = {RaceDetector::Access::read, RaceDetector::Access::write, RaceDetector::Access::atomic};
    record(f.number, offset, static_cast<uint32_t>(bytes), kinds[static_cast<int>(kind)], pc);
}

// A row is read on behalf of the lane that gave its address.
void Worker::matrix_row(unsigned lane, uintptr_t row) {
    Fibre *caller = fibre_;
    fibre_ = &fibres_[caller->number / 32 * 32 + lane];
    if (row % 16 != 0) fault(fault_misaligned_address, "ldmatrix at " + place(fibre_->site) + ": a row is aligned to 16 bytes");
    if (row - shared_base_ >= shared_bytes) fault(fault_illegal_address, "ldmatrix at " + place(fibre_->site) + ": the row is not in shared memory");
    access_by(*fibre_, row, 16, Access::read, nullptr);
    fibre_ = caller;
}

void Worker::release_flag(uintptr_t flag) {
    if (races_) races_->release(flags_[flag], fibre_->number);
}

void Worker::acquire_flag(uintptr_t flag) {
    if (!races_) return;
    const auto found = flags_.find(flag);
    if (found != flags_.end()) races_->acquire(found->second, fibre_->number);
}

void Worker::copy_async(uintptr_t shared, uintptr_t global, unsigned bytes, unsigned read) {
    Fibre &f = *fibre_;
    if (shared - shared_base_ >= shared_bytes) fault(fault_illegal_address, "cp_async: the destination is not in shared memory");
    if (shared % bytes != 0 || global % bytes != 0) fault(fault_misaligned_address, format("cp_async: both addresses are aligned to %u bytes", bytes));
    if (read > bytes) fault(fault_launch_failed, format("cp_async: %u of %u bytes", read, bytes));
    if (read > 0) {
        if (!launch_->device->holds(global) && !launch_->host->holds(global)) fault(fault_illegal_address, "cp_async: the source is not in global memory");
        access_by(f, global, read, Access::read, nullptr);
    }
    // The hardware may write at any time from now to the wait.
    access_by(f, shared, bytes, Access::write, nullptr);
    memset(shadow_.get() + (shared - shared_base_), copying, bytes);
    f.open_group.push_back({shared, global, static_cast<uint8_t>(bytes), static_cast<uint8_t>(read)});
}

void Worker::copy_commit() {
    Fibre &f = *fibre_;
    f.groups.push_back(std::move(f.open_group));
    f.open_group.clear();
}

void Worker::perform(const std::vector<Copy> &copies) {
    for (const Copy &c : copies) {
        const uint32_t offset = static_cast<uint32_t>(c.shared - shared_base_);
        memcpy(reinterpret_cast<void *>(c.shared), reinterpret_cast<const void *>(c.global), c.read);
        memset(reinterpret_cast<void *>(c.shared + c.read), 0, static_cast<size_t>(c.bytes - c.read));
        memset(shadow_.get() + offset, written, c.bytes);
        record(fibre_->number, offset, c.bytes, RaceDetector::Access::write, nullptr);
    }
}

void Worker::copy_wait(int pending) {
    Fibre &f = *fibre_;
    while (f.groups.size() > static_cast<size_t>(pending)) {
        perform(f.groups.front());
        f.groups.erase(f.groups.begin());
    }
}

void Worker::copy_wait_all() {
    Fibre &f = *fibre_;
    copy_wait(0);
    perform(f.open_group);
    f.open_group.clear();
}

}  // namespace sim
