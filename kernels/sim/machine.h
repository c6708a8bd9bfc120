// The simulated machine: devices, their primary contexts, and what lives in those. driver.cc puts CUDA's driver API on
// it, control.cc the switches that tests turn. One mutex guards all of it; kernels and copies run outside it.
#pragma once

#include <stdint.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "block.h"
#include "memory.h"
#include "ptx.h"

namespace sim {

// CUDA's error numbers (CUresult).
enum Result : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    no_device = 100,
    invalid_device = 101,
    invalid_context = 201,
    no_binary_for_gpu = 209,
    invalid_ptx = 218,
    unsupported_ptx_version = 222,
    invalid_handle = 400,
    not_found = 500,
    not_ready = 600,
    launch_out_of_resources = 701,
    context_is_destroyed = 709,
    unknown_error = 999,
};

constexpr int max_devices = 8;
constexpr uint64_t device_span = uint64_t{8} << 30;  // address space of a device's memory

struct Context;
struct Device;

// Something in a stream that others wait for.
struct Point {
    bool done = false;
    std::chrono::steady_clock::time_point at;
};

enum class Work { kernel, to_device, to_host, fill, event, wait };

struct Operation {
    Work kind;
    std::function<int()> run;  // outside the mutex; a result other than 0 is a sticky error
    std::shared_ptr<Point> point;
};

struct Stream {
    Context *context;
    int priority = 0;
    std::deque<Operation> queue;
    bool busy = false, closing = false, held = false;
    std::condition_variable wake;
    Launch *running = nullptr;
};

struct Event {
    Context *context;
    bool timed = true;
    std::shared_ptr<Point> latest;
};

struct Module;
struct Function {
    Module *module;
    const simt::Kernel *kernel;
    PtxEntry entry;
    uint32_t max_dynamic_shared;
};
struct Module {
    Context *context;
    PtxModule ptx;
    std::map<std::string, Function> functions;
};

struct Context {
    Device *device;
    bool dead = false;  // destroyed; kept, since its address may still be held
    int sticky = 0;
    unsigned stream_threads = 0;
    std::shared_ptr<Stream> default_stream;
    std::unordered_map<void *, std::shared_ptr<Stream>> streams;
    std::unordered_map<void *, std::unique_ptr<Event>> events;
    std::unordered_map<void *, std::unique_ptr<Module>> modules;
};

struct PinnedMemory {
    Context *context;
    bool portable, mapped;
};

// A fault that a test asks for: after `skip` more matches, `count` matches are hit (-1: all).
struct Trigger {
    int64_t skip = 0, count = 0;

    bool fires() {
        if (count == 0) return false;
        if (skip > 0) {
            skip--;
            return false;
        }
        if (count > 0) count--;
        return true;
    }
};
struct CallFailure : Trigger {
    std::string call;
    int code = 0;
    bool sticky = false;
};
struct LaunchFault : Trigger {
    int code = 0;
};
struct Corruption : Trigger {
    uint64_t offset = 0;
    uint8_t flip = 0;
};

struct Device {
    int number;
    std::unique_ptr<Arena> memory;
    std::unique_ptr<Context> primary;
    unsigned retained = 0;
    unsigned flags = 0;

    // Properties.
    int major = 9, minor = 0, multiprocessors = 4;

    // What tests set.
    int lost = 0;             // every call fails with it
    int permanent = 0;        // a sticky error that no reset clears: there is no context any more
    bool faults_are_permanent = false;  // as they are on some cards
    bool held = false;        // the gate: streams start nothing, except
    int64_t passes = 0;       // this many operations
    bool hanging = false;     // operations marked by `hang` wait while it lasts
    std::list<CallFailure> call_failures;
    std::list<LaunchFault> launch_faults;
    Trigger hang;
    std::list<Corruption> corruptions;
    uint64_t launch_delay_us = 0, copy_delay_us = 0;
    double slowdown = 1;
    int utilisation_percent = -1, temperature_celsius = -1, power_milliwatts = -1;  // NVML's; below 0: the device has no such sensor

    // Counters since the last reset of the machine.
    uint64_t launches = 0, blocks = 0, copies_to_device = 0, copies_to_host = 0, bytes_to_device = 0, bytes_to_host = 0;
    uint64_t pageable_copies = 0, uninitialised_copies = 0, calls = 0, faults = 0;
};

class Machine {
public:
    static Machine &instance();

    std::mutex mutex;
    std::condition_variable changed;  // something finished, or was switched

    bool initialised = false;
    int driver_version = 13000;
    int device_count = 1;
    std::vector<std::unique_ptr<Device>> devices;  // max_devices of them
    std::unique_ptr<Arena> host;
    uint64_t host_capacity = uint64_t{4} << 30;
    std::unordered_map<uint64_t, PinnedMemory> pinned;  // by offset
    std::vector<std::unique_ptr<Context>> graveyard;
    std::string last_fault, jit_log;
    uint64_t seed = 0;
    uint32_t next_tag = 1;
    uint64_t step_limit = uint64_t{1} << 34;
    Checks checks;
    bool pageable_allowed = true;

    bool is_handle(uintptr_t p) const { return p - handles_ < handle_span_; }

    // The following are called with the mutex held.
    Context *make_primary(Device &device);
    // destroy_primary ends everything in the context, waiting for what is running.
    void destroy_primary(Device &device, std::unique_lock<std::mutex> &lock);
    std::shared_ptr<Stream> make_stream(Context *context, int priority);
    void close_stream(Stream &stream);
    void enqueue(Stream &stream, Operation operation);
    bool idle(const Stream &stream) const { return stream.queue.empty() && !stream.busy; }
    // wait_for returns when the condition holds or the context has come to its end, with the error to report.
    int wait_for(Context *context, std::unique_lock<std::mutex> &lock, const std::function<bool()> &condition);
    void fail(Context *context, int code, const std::string &reason);
    void wake_streams(Device &device);
    // launch_tag numbers launches, over and over.
    uint32_t launch_tag();

    // Operations, run outside the mutex.
    int run_kernel(std::shared_ptr<Stream> stream, const Function &function, std::unique_ptr<Launch> launch);
    int copy_to_device(Context *context, uintptr_t handle, const void *from, uint64_t bytes, bool pinned_source);
    int copy_to_host(Context *context, void *to, uintptr_t handle, uint64_t bytes, bool pinned_destination);
    int fill(Context *context, uintptr_t handle, uint8_t value, uint64_t bytes);

    // reset puts the machine back to what it is when loaded.
    void reset();

private:
    Machine();
    uintptr_t handles_;
    uint64_t handle_span_;

    void configure();
    void run_stream(std::shared_ptr<Stream> stream);
    bool may_start(const Stream &stream) const;
    void linger(Device &device, Work kind, std::chrono::steady_clock::time_point started);
};

}  // namespace sim
