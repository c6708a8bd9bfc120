#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "pool.h"
#include "threads.h"

namespace sim {
namespace {

constexpr uint64_t default_device_memory = uint64_t{1} << 30;

uint64_t environment_number(const char *name, uint64_t otherwise) {
    const char *set = getenv(name);
    return set && *set ? strtoull(set, nullptr, 10) : otherwise;
}

}  // namespace

Machine &Machine::instance() {
    // Never destroyed: its threads may be running when the process exits.
    static Machine *machine = new Machine;
    return *machine;
}

Machine::Machine() {
    handle_span_ = device_span * (max_devices + 1);
    void *p = mmap(nullptr, handle_span_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "kernels/sim: cannot reserve address space for device addresses\n");
        abort();
    }
    handles_ = reinterpret_cast<uintptr_t>(p);
    host.reset(new Arena(Arena::Kind::pinned, device_span, handles_ + device_span * max_devices));
    configure();
}

void Machine::configure() {
    devices.clear();
    for (int i = 0; i < max_devices; i++) {
        auto device = std::make_unique<Device>();
        device->number = i;
        device->memory.reset(new Arena(Arena::Kind::device, device_span, handles_ + device_span * static_cast<uint64_t>(i)));
        device->memory->set_capacity(default_device_memory);
        devices.push_back(std::move(device));
    }
    host->set_capacity(host_capacity);
    device_count = static_cast<int>(std::min<uint64_t>(environment_number("CTRUTLS_SIM_DEVICES", 1), max_devices));
    seed = environment_number("CTRUTLS_SIM_SEED", 0);
    driver_version = 13000;
    step_limit = uint64_t{1} << 34;
    pageable_allowed = true;
    checks = {};
    if (const char *set = getenv("CTRUTLS_SIM_CHECKS")) {
        checks.races = strstr(set, "races") != nullptr;
        checks.uninitialised_global = strstr(set, "global") != nullptr;
        checks.uninitialised_shared = strstr(set, "shared") != nullptr;
    }
    last_fault.clear();
    jit_log.clear();
}

void Machine::reset() {
    std::unique_lock<std::mutex> lock(mutex);
    for (auto &device : devices) {
        device->held = device->hanging = false;
        if (device->primary) destroy_primary(*device, lock);
    }
    initialised = false;
    configure();
}

Context *Machine::make_primary(Device &device) {
    device.primary = std::make_unique<Context>();
    device.primary->device = &device;
    return device.primary.get();
}

void Machine::destroy_primary(Device &device, std::unique_lock<std::mutex> &lock) {
    Context *context = device.primary.get();
    context->dead = true;
    device.hanging = false;
    for (auto &[handle, stream] : context->streams)
        if (stream->running) Pool::shared().cancel(*stream->running);
    wake_streams(device);
    changed.notify_all();
    changed.wait(lock, [&] { return context->stream_threads == 0; });
    context->streams.clear();
    context->default_stream.reset();
    context->events.clear();
    context->modules.clear();
    device.memory->release_all();
    for (auto it = pinned.begin(); it != pinned.end();) {
        if (it->second.context != context) {
            ++it;
            continue;
        }
        host->release(it->first);
        it = pinned.erase(it);
    }
    device.retained = 0;
    graveyard.push_back(std::move(device.primary));
    changed.notify_all();
}

std::shared_ptr<Stream> Machine::make_stream(Context *context, int priority) {
    auto stream = std::make_shared<Stream>();
    stream->context = context;
    stream->priority = priority;
    context->streams[stream.get()] = stream;
    context->stream_threads++;
    start_thread([this, stream] { run_stream(stream); });
    return stream;
}

void Machine::close_stream(Stream &stream) {
    stream.closing = true;
    stream.wake.notify_all();
}

void Machine::wake_streams(Device &device) {
    if (!device.primary) return;
    for (auto &[handle, stream] : device.primary->streams) stream->wake.notify_all();
}

uint32_t Machine::launch_tag() {
    if (next_tag > Arena::last_tag) {
        next_tag = 1;
        host->forget_touches();
        for (auto &device : devices) device->memory->forget_touches();
    }
    return next_tag++;
}

void Machine::enqueue(Stream &stream, Operation operation) {
    stream.queue.push_back(std::move(operation));
    stream.wake.notify_all();
    changed.notify_all();
}

bool Machine::may_start(const Stream &stream) const {
    if (stream.queue.empty()) return false;
    const Device &device = *stream.context->device;
    if (stream.held) return false;
    return !device.held || device.passes > 0;
}

void Machine::run_stream(std::shared_ptr<Stream> stream) {
    std::unique_lock<std::mutex> lock(mutex);
    Context *context = stream->context;
    Device &device = *context->device;
    for (;;) {
        // After an error nothing is started any more, and the gate has nothing to hold: the queue runs dry.
        const auto failed = [&] { return context->sticky != 0 || device.lost != 0; };
        stream->wake.wait(lock, [&] {
            return context->dead || may_start(*stream) || (failed() && !stream->queue.empty()) || (stream->closing && stream->queue.empty());
        });
        if (context->dead || stream->queue.empty()) break;
        Operation operation = std::move(stream->queue.front());
        stream->queue.pop_front();
        stream->busy = true;
        if (device.held && device.passes > 0) device.passes--;
        if (!failed()) {
            lock.unlock();
            const int code = operation.run();
            operation.run = nullptr;
            lock.lock();
            if (code != 0 && context->sticky == 0) {
                context->sticky = code;
                wake_streams(device);
            }
        }
        if (operation.point) {
            operation.point->done = true;
            operation.point->at = std::chrono::steady_clock::now();
        }
        stream->busy = false;
        changed.notify_all();
    }
    for (Operation &left : stream->queue)
        if (left.point) left.point->done = true;
    stream->queue.clear();
    context->stream_threads--;
    context->streams.erase(stream.get());
    changed.notify_all();
}

int Machine::wait_for(Context *context, std::unique_lock<std::mutex> &lock, const std::function<bool()> &condition) {
    changed.wait(lock, [&] { return context->dead || context->device->lost != 0 || condition(); });
    if (context->dead) return context_is_destroyed;
    if (context->device->lost != 0) return context->device->lost;
    return context->sticky;
}

void Machine::fail(Context *context, int code, const std::string &reason) {
    if (context->sticky == 0) context->sticky = code;
    if (context->device->faults_are_permanent) context->device->permanent = code;
    last_fault = reason;
    context->device->faults++;
    wake_streams(*context->device);
    changed.notify_all();
}

// linger keeps an operation going for as long as the device's settings say.
void Machine::linger(Device &device, Work kind, std::chrono::steady_clock::time_point started) {
    using namespace std::chrono;
    nanoseconds more;
    {
        std::lock_guard<std::mutex> lock(mutex);
        const auto spent = steady_clock::now() - started;
        more = duration_cast<nanoseconds>(spent * (device.slowdown - 1));
        more += microseconds(kind == Work::kernel ? device.launch_delay_us : device.copy_delay_us);
    }
    if (more.count() > 0) std::this_thread::sleep_for(more);
}

int Machine::run_kernel(std::shared_ptr<Stream> stream, const Function &function, std::unique_ptr<Launch> launch) {
    Context *context = stream->context;
    Device &device = *context->device;
    const auto started = std::chrono::steady_clock::now();
    {
        std::unique_lock<std::mutex> lock(mutex);
        if (device.hang.fires()) device.hanging = true;
        if (device.hanging) {
            const auto over = [&] { return context->dead || context->sticky != 0 || device.lost != 0; };
            changed.wait(lock, [&] { return !device.hanging || over(); });
            if (over()) return 0;
        }
        for (LaunchFault &fault : device.launch_faults) {
            if (!fault.fires()) continue;
            fail(context, fault.code, function.entry.name + ": fault injected by a test");
            return fault.code;
        }
        stream->running = launch.get();
    }
    const Fault fault = Pool::shared().run(*launch);
    linger(device, Work::kernel, started);
    std::lock_guard<std::mutex> lock(mutex);
    stream->running = nullptr;
    device.launches++;
    device.blocks += launch->blocks();
    if (fault.code != 0) fail(context, fault.code, fault.text);
    return fault.code;
}

int Machine::copy_to_device(Context *context, uintptr_t handle, const void *from, uint64_t bytes, bool pinned_source) {
    Device &device = *context->device;
    Arena &memory = *device.memory;
    const auto started = std::chrono::steady_clock::now();
    const uintptr_t real = memory.real_of_handle(handle);
    const bool to_ok = memory.reach(real, bytes) == Verdict::ok;
    const bool from_ok = !pinned_source || host->reach(reinterpret_cast<uintptr_t>(from), bytes) == Verdict::ok;
    if (to_ok && from_ok) {
        memcpy(reinterpret_cast<void *>(real), from, bytes);
        memory.mark_written(real, bytes);
    }
    linger(device, Work::to_device, started);
    std::lock_guard<std::mutex> lock(mutex);
    if (!to_ok || !from_ok) {
        fail(context, fault_illegal_address, std::string("copy to device: ") + (to_ok ? "the host memory" : "the device memory") + " was freed before the copy ran");
        return fault_illegal_address;
    }
    device.copies_to_device++;
    device.bytes_to_device += bytes;
    return 0;
}

int Machine::copy_to_host(Context *context, void *to, uintptr_t handle, uint64_t bytes, bool pinned_destination) {
    Device &device = *context->device;
    Arena &memory = *device.memory;
    const auto started = std::chrono::steady_clock::now();
    const uintptr_t real = memory.real_of_handle(handle);
    const bool from_ok = memory.reach(real, bytes) == Verdict::ok;
    const bool to_ok = !pinned_destination || host->reach(reinterpret_cast<uintptr_t>(to), bytes) == Verdict::ok;
    const bool unwritten = from_ok && memory.any_unwritten(real, bytes);
    if (to_ok && from_ok) memcpy(to, reinterpret_cast<const void *>(real), bytes);
    linger(device, Work::to_host, started);
    std::lock_guard<std::mutex> lock(mutex);
    if (!to_ok || !from_ok) {
        fail(context, fault_illegal_address, std::string("copy to host: ") + (to_ok ? "the device memory" : "the host memory") + " was freed before the copy ran");
        return fault_illegal_address;
    }
    for (Corruption &corruption : device.corruptions)
        if (corruption.fires() && corruption.offset < bytes) static_cast<uint8_t *>(to)[corruption.offset] ^= corruption.flip;
    device.copies_to_host++;
    device.bytes_to_host += bytes;
    if (unwritten) device.uninitialised_copies++;
    return 0;
}

int Machine::fill(Context *context, uintptr_t handle, uint8_t value, uint64_t bytes) {
    Arena &memory = *context->device->memory;
    const uintptr_t real = memory.real_of_handle(handle);
    if (memory.reach(real, bytes) != Verdict::ok) {
        std::lock_guard<std::mutex> lock(mutex);
        fail(context, fault_illegal_address, "memset: the device memory was freed before it ran");
        return fault_illegal_address;
    }
    memset(reinterpret_cast<void *>(real), value, bytes);
    memory.mark_written(real, bytes);
    return 0;
}

}  // namespace sim
