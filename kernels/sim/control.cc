// The switches that tests turn: functions of this library that the real one does not have. kernels/sim/simctl calls them
// from Go and documents each. Every one returns 0, or 1 for an argument that makes no sense.
#include <algorithm>
#include <stdio.h>
#include <string.h>

#include "machine.h"
#include "pool.h"

using namespace sim;

#define CONTROL(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)

namespace {

// Every name that simFailCall knows: the calls' names without their version suffix.
constexpr const char *call_names[] = {
    "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceTotalMem", "cuDeviceGetPCIBusId", "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxSetFlags",
    "cuCtxSetCurrent", "cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxSynchronize", "cuCtxGetStreamPriorityRange",
    "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction", "cuFuncGetAttribute", "cuFuncSetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuMemHostAlloc", "cuMemFreeHost", "cuMemHostGetDevicePointer",
    "cuMemsetD8Async", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
    "cuStreamCreate", "cuStreamGetPriority", "cuStreamDestroy", "cuStreamQuery", "cuStreamSynchronize", "cuStreamWaitEvent",
    "cuEventCreate", "cuEventDestroy", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuEventElapsedTime",
    "cuLaunchKernel",
};

// with_device runs f on a device, with the machine's mutex held, and tells all who wait that something has changed.
template <class F>
int with_device(int number, F f) {
    if (number < 0 || number >= max_devices) return 1;
    Machine &machine = Machine::instance();
    std::lock_guard<std::mutex> lock(machine.mutex);
    Device &device = *machine.devices[static_cast<size_t>(number)];
    f(machine, device);
    machine.wake_streams(device);
    machine.changed.notify_all();
    return 0;
}

template <class F>
int with_machine(F f) {
    Machine &machine = Machine::instance();
    std::lock_guard<std::mutex> lock(machine.mutex);
    f(machine);
    return 0;
}

uint64_t queued(const Device &device) {
    uint64_t n = 0;
    if (device.primary)
        for (const auto &[handle, stream] : device.primary->streams) n += stream->queue.size();
    return n;
}

}  // namespace

CONTROL(simReset, void) {
    Machine::instance().reset();
    return 0;
}

CONTROL(simSetDeviceCount, int count) {
    if (count < 0 || count > max_devices) return 1;
    return with_machine([&](Machine &machine) { machine.device_count = count; });
}

CONTROL(simSetDriverVersion, int version) {
    return with_machine([&](Machine &machine) { machine.driver_version = version; });
}

CONTROL(simSetCompute, int number, int major, int minor) {
    return with_device(number, [&](Machine &, Device &device) { device.major = major, device.minor = minor; });
}

CONTROL(simSetMultiprocessors, int number, int count) {
    if (count < 1) return 1;
    return with_device(number, [&](Machine &, Device &device) { device.multiprocessors = count; });
}

CONTROL(simSetMemory, int number, uint64_t bytes) {
    return with_device(number, [&](Machine &, Device &device) { device.memory->set_capacity(bytes); });
}

CONTROL(simSetHostMemory, uint64_t bytes) {
    return with_machine([&](Machine &machine) { machine.host->set_capacity(bytes); });
}

CONTROL(simSetSeed, uint64_t seed) {
    return with_machine([&](Machine &machine) { machine.seed = seed; });
}

CONTROL(simSetChecks, int races, int uninitialised_global, int uninitialised_shared) {
    return with_machine([&](Machine &machine) { machine.checks = {races != 0, uninitialised_global != 0, uninitialised_shared != 0}; });
}

CONTROL(simSetStepLimit, uint64_t accesses) {
    return with_machine([&](Machine &machine) { machine.step_limit = accesses; });
}

CONTROL(simSetPageable, int allowed) {
    return with_machine([&](Machine &machine) { machine.pageable_allowed = allowed != 0; });
}

CONTROL(simFailCall, int number, const char *name, int64_t skip, int64_t count, int code, int sticky) {
    const bool known = std::any_of(std::begin(call_names), std::end(call_names), [&](const char *k) { return strcmp(k, name) == 0; });
    if (!known || skip < 0 || code == 0) return 1;
    return with_device(number, [&](Machine &, Device &device) {
        CallFailure failure;
        failure.skip = skip, failure.count = count;
        failure.call = name, failure.code = code, failure.sticky = sticky != 0;
        device.call_failures.push_back(failure);
    });
}

CONTROL(simCallName, int index, char *name, size_t room) {
    if (index < 0 || static_cast<size_t>(index) >= std::size(call_names)) return 1;
    snprintf(name, room, "%s", call_names[index]);
    return 0;
}

CONTROL(simFaultLaunch, int number, int64_t skip, int64_t count, int code) {
    if (skip < 0 || code == 0) return 1;
    return with_device(number, [&](Machine &, Device &device) {
        LaunchFault fault;
        fault.skip = skip, fault.count = count, fault.code = code;
        device.launch_faults.push_back(fault);
    });
}

CONTROL(simHangLaunch, int number, int64_t skip) {
    if (skip < 0) return 1;
    return with_device(number, [&](Machine &, Device &device) { device.hang.skip = skip, device.hang.count = 1; });
}

CONTROL(simReleaseHang, int number) {
    return with_device(number, [&](Machine &, Device &device) { device.hang.count = 0, device.hanging = false; });
}

CONTROL(simHanging, int number) {
    int hanging = 0;
    with_device(number, [&](Machine &, Device &device) { hanging = device.hanging; });
    return hanging;
}

CONTROL(simSetLost, int number, int code) {
    return with_device(number, [&](Machine &machine, Device &device) {
        device.lost = code;
        if (device.primary)
            for (auto &[handle, stream] : device.primary->streams)
                if (code != 0 && stream->running) Pool::shared().cancel(*stream->running);
        machine.last_fault = "device lost by a test";
    });
}

CONTROL(simSetSticky, int number, int code, int permanent) {
    return with_device(number, [&](Machine &machine, Device &device) {
        device.permanent = permanent ? code : 0;
        if (device.primary) device.primary->sticky = code;
        machine.last_fault = "sticky error set by a test";
    });
}

CONTROL(simSetFaultsPermanent, int number, int permanent) {
    return with_device(number, [&](Machine &, Device &device) { device.faults_are_permanent = permanent != 0; });
}

CONTROL(simCorruptCopy, int number, int64_t skip, int64_t count, uint64_t offset, int flip) {
    if (skip < 0 || (flip & 0xff) == 0) return 1;
    return with_device(number, [&](Machine &, Device &device) {
        Corruption corruption;
        corruption.skip = skip, corruption.count = count;
        corruption.offset = offset, corruption.flip = static_cast<uint8_t>(flip);
        device.corruptions.push_back(corruption);
    });
}

CONTROL(simClearFaults, int number) {
    return with_device(number, [&](Machine &, Device &device) {
        device.call_failures.clear();
        device.launch_faults.clear();
        device.corruptions.clear();
        device.hang.count = 0;
        device.hanging = false;
        device.lost = device.permanent = 0;
        device.faults_are_permanent = false;
    });
}

CONTROL(simHold, int number, int held) {
    return with_device(number, [&](Machine &, Device &device) { device.held = held != 0, device.passes = 0; });
}

CONTROL(simPass, int number, int64_t operations) {
    if (operations < 0) return 1;
    return with_device(number, [&](Machine &, Device &device) { device.passes += operations; });
}

CONTROL(simHoldStream, int number, void *handle, int held) {
    int unknown = 1;
    const int wrong = with_device(number, [&](Machine &, Device &device) {
        if (!device.primary) return;
        const auto found = device.primary->streams.find(handle);
        if (found == device.primary->streams.end()) return;
        found->second->held = held != 0;
        unknown = 0;
    });
    return wrong | unknown;
}

CONTROL(simWaitQueued, int number, uint64_t operations, int timeout_ms) {
    if (number < 0 || number >= max_devices) return 1;
    Machine &machine = Machine::instance();
    std::unique_lock<std::mutex> lock(machine.mutex);
    Device &device = *machine.devices[static_cast<size_t>(number)];
    return machine.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return queued(device) >= operations; }) ? 0 : 1;
}

CONTROL(simSetDelay, int number, uint64_t launch_us, uint64_t copy_us, int slowdown_percent) {
    if (slowdown_percent < 100) return 1;
    return with_device(number, [&](Machine &, Device &device) {
        device.launch_delay_us = launch_us, device.copy_delay_us = copy_us, device.slowdown = slowdown_percent / 100.0;
    });
}

CONTROL(simSetSensors, int number, int utilisation_percent, int temperature_celsius, int power_milliwatts) {
    return with_device(number, [&](Machine &, Device &device) {
        device.utilisation_percent = utilisation_percent, device.temperature_celsius = temperature_celsius, device.power_milliwatts = power_milliwatts;
    });
}

CONTROL(simLastFault, char *text, size_t room) {
    return with_machine([&](Machine &machine) { snprintf(text, room, "%s", machine.last_fault.c_str()); });
}

// The layout is repeated in simctl.
struct SimStats {
    // What exists now.
    uint64_t contexts, streams, events, modules, device_allocations, device_bytes, pinned_allocations, pinned_bytes, queued;
    // What has happened since the last simReset.
    uint64_t calls, launches, blocks, copies_to_device, bytes_to_device, copies_to_host, bytes_to_host, pageable_copies, uninitialised_copies, faults;
};

CONTROL(simGetStats, int number, SimStats *stats, size_t bytes) {
    if (bytes != sizeof(SimStats)) return 1;
    return with_device(number, [&](Machine &machine, Device &device) {
        *stats = {};
        if (const Context *context = device.primary.get()) {
            stats->contexts = device.retained;
            for (const auto &[handle, stream] : context->streams) stats->streams += !stream->closing && stream != context->default_stream;
            stats->events = context->events.size();
            stats->modules = context->modules.size();
        }
        stats->device_allocations = device.memory->live_count();
        stats->device_bytes = device.memory->live_bytes();
        stats->pinned_allocations = machine.host->live_count();
        stats->pinned_bytes = machine.host->live_bytes();
        stats->queued = queued(device);
        stats->calls = device.calls;
        stats->launches = device.launches;
        stats->blocks = device.blocks;
        stats->copies_to_device = device.copies_to_device;
        stats->bytes_to_device = device.bytes_to_device;
        stats->copies_to_host = device.copies_to_host;
        stats->bytes_to_host = device.bytes_to_host;
        stats->pageable_copies = device.pageable_copies;
        stats->uninitialised_copies = device.uninitialised_copies;
        stats->faults = device.faults;
    });
}
