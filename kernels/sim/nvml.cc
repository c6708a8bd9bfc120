// What NVML tells of the simulated devices, under NVML's own names: https://docs.nvidia.com/deploy/nvml-api.
// Memory is that of the device; a temperature, a utilisation and a power draw are what a test has set.
#include <algorithm>
#include <stdio.h>
#include <string.h>

#include "machine.h"

using namespace sim;

#define NVML(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)

namespace {

// nvmlReturn_t
enum Return { nvml_success = 0, nvml_uninitialized = 1, nvml_invalid_argument = 2, nvml_not_supported = 3, nvml_not_found = 6, nvml_gpu_is_lost = 15 };

int initialised;

// read runs f on the device of a handle, which is its number and one.
template <class F>
int read(uintptr_t handle, F f) {
    Machine &machine = Machine::instance();
    std::lock_guard<std::mutex> lock(machine.mutex);
    if (initialised == 0) return nvml_uninitialized;
    if (handle == 0 || handle > max_devices) return nvml_invalid_argument;
    Device &device = *machine.devices[handle - 1];
    return device.lost != 0 ? int{nvml_gpu_is_lost} : int{f(device)};
}

}  // namespace

NVML(nvmlInit_v2, void) {
    std::lock_guard<std::mutex> lock(Machine::instance().mutex);
    initialised++;
    return nvml_success;
}

NVML(nvmlShutdown, void) {
    std::lock_guard<std::mutex> lock(Machine::instance().mutex);
    if (initialised == 0) return nvml_uninitialized;
    initialised--;
    return nvml_success;
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *id, uintptr_t *handle) {
    unsigned bus = 0;
    if (sscanf(id, "0000:%x:00.0", &bus) != 1 || bus < 0x10 || bus >= 0x10 + max_devices) return nvml_not_found;
    *handle = bus - 0x10 + 1;
    return read(*handle, [](Device &) { return nvml_success; });
}

NVML(nvmlDeviceGetMemoryInfo, uintptr_t handle, unsigned long long info[3]) {
    return read(handle, [&](Device &device) {
        const uint64_t total = device.memory->capacity(), used = std::min<uint64_t>(total, device.memory->live_bytes());
        info[0] = total, info[1] = total - used, info[2] = used;
        return nvml_success;
    });
}

NVML(nvmlDeviceGetUtilizationRates, uintptr_t handle, unsigned rates[2]) {
    return read(handle, [&](Device &device) {
        if (device.utilisation_percent < 0) return nvml_not_supported;
        rates[0] = static_cast<unsigned>(device.utilisation_percent), rates[1] = 0;
        return nvml_success;
    });
}

NVML(nvmlDeviceGetTemperature, uintptr_t handle, int sensor, unsigned *celsius) {
    return read(handle, [&](Device &device) {
        if (sensor != 0) return nvml_invalid_argument;
        if (device.temperature_celsius < 0) return nvml_not_supported;
        *celsius = static_cast<unsigned>(device.temperature_celsius);
        return nvml_success;
    });
}

NVML(nvmlDeviceGetPowerUsage, uintptr_t handle, unsigned *milliwatts) {
    return read(handle, [&](Device &device) {
        if (device.power_milliwatts < 0) return nvml_not_supported;
        *milliwatts = static_cast<unsigned>(device.power_milliwatts);
        return nvml_success;
    });
}
