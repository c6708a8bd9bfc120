// The host threads that run thread blocks, shared by all devices and streams of the process.
#pragma once

#include <stdint.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "block.h"

namespace sim {

class Pool {
public:
    static Pool &shared();

    // run runs all blocks of a launch and returns the fault of the lowest block that had one (code 0: none). It ends early when
    // the launch is cancelled.
    Fault run(Launch &launch);

    // cancel ends a launch early. No thread may have taken a block of it yet, and none will then, so run has to be told.
    void cancel(Launch &launch);

private:
    struct Job {
        Launch *launch;
        Fault fault;
        unsigned workers = 0;
    };

    std::mutex mutex_;
    std::condition_variable work_, done_;
    std::deque<Job *> jobs_;

    void start();
    void work();
    static void run_blocks(Worker &worker, Job &job, std::mutex &mutex);
};

// Every registered kernel by name, or null.
const simt::Kernel *find_kernel(const char *name);

}  // namespace sim
