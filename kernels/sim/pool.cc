#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <thread>

#include "threads.h"

namespace sim {
namespace {

simt::Kernel *kernels = nullptr;

unsigned thread_count() {
    if (const char *set = getenv("CTRUTLS_SIM_THREADS")) {
        const int n = atoi(set);
        if (n >= 1 && n <= 64) return static_cast<unsigned>(n);
    }
    return std::min(std::max(std::thread::hardware_concurrency(), 1u), 8u);
}

// The order of blocks is a permutation that the seed picks: block = index * odd mod 2^k, skipping what is past the end.
uint64_t pick_block(const Launch &launch, uint64_t index) {
    if (launch.seed == 0) return index;
    uint64_t size = 1;
    while (size < launch.blocks()) size *= 2;
    const uint64_t factor = (launch.seed * 2654435761u) | 1;
    return (index * factor + launch.seed) & (size - 1);
}

uint64_t index_count(const Launch &launch) {
    uint64_t size = 1;
    if (launch.seed == 0) return launch.blocks();
    while (size < launch.blocks()) size *= 2;
    return size;
}

}  // namespace

const simt::Kernel *find_kernel(const char *name) {
    for (const simt::Kernel *k = kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0) return k;
    return nullptr;
}

Pool &Pool::shared() {
    // Never destroyed: its threads may be running when the process exits.
    static Pool *pool = [] {
        auto *p = new Pool;
        p->start();
        return p;
    }();
    return *pool;
}

void Pool::start() {
    for (unsigned i = 0; i < thread_count(); i++) start_thread([this] { work(); });
}

Fault Pool::run(Launch &launch) {
    Job job{&launch, {}};
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.push_back(&job);
    work_.notify_all();
    done_.wait(lock, [&] {
        return job.workers == 0 && (launch.cancelled || launch.next_block >= index_count(launch));
    });
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    return job.fault;
}

void Pool::cancel(Launch &launch) {
    std::lock_guard<std::mutex> lock(mutex_);
    launch.cancelled = true;
    done_.notify_all();
}

void Pool::work() {
    Worker worker;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        Job *job = nullptr;
        for (Job *candidate : jobs_) {
            if (candidate->launch->cancelled || candidate->launch->next_block >= index_count(*candidate->launch)) continue;
            job = candidate;
            break;
        }
        if (!job) {
            work_.wait(lock);
            continue;
        }
        job->workers++;
        lock.unlock();
        run_blocks(worker, *job, mutex_);
        lock.lock();
        job->workers--;
        done_.notify_all();
    }
}

void Pool::run_blocks(Worker &worker, Job &job, std::mutex &mutex) {
    Launch &launch = *job.launch;
    const uint64_t count = index_count(launch);
    while (!launch.cancelled) {
        const uint64_t index = launch.next_block++;
        if (index >= count) return;
        const uint64_t block = pick_block(launch, index);
        if (block >= launch.blocks()) continue;
        const Fault fault = worker.run(launch, block);
        if (fault.code == 0) continue;
        launch.cancelled = true;
        std::lock_guard<std::mutex> lock(mutex);
        if (job.fault.code == 0 || fault.block < job.fault.block) job.fault = fault;
    }
}

}  // namespace sim

void simt::register_kernel(Kernel *kernel) {
    kernel->next = sim::kernels;
    sim::kernels = kernel;
}
