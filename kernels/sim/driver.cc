// CUDA's driver API on the simulated machine: the entry points that gpu/driver uses, under the names of the library's ABI.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "machine.h"
#include "pool.h"

using namespace sim;

#define API(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)

namespace {

thread_local Context *current_context = nullptr;

constexpr uint32_t default_shared_limit = 48 << 10;
constexpr uint32_t shared_limit_opt_in = 227 << 10;
constexpr uint32_t shared_per_multiprocessor = 228 << 10;

// One call of the API: holds the machine's mutex, counts the call, and finds the error that it must return, if any, before it does anything.
class Call {
public:
    // A call that belongs to no device.
    explicit Call(const char *name) : machine(Machine::instance()), lock(machine.mutex) {
        if (!machine.initialised) error = not_initialized;
        else inject(name, *machine.devices[0]);
    }

    // A call that names a device.
    Call(const char *name, int number) : machine(Machine::instance()), lock(machine.mutex) {
        if (!machine.initialised) error = not_initialized;
        else if (number < 0 || number >= machine.device_count) error = invalid_device;
        else {
            device = machine.devices[static_cast<size_t>(number)].get();
            if (device->lost != 0) error = device->lost;
            else inject(name, *device);
        }
    }

    // A call in the calling thread's context.
    struct InContext {};
    Call(const char *name, InContext) : machine(Machine::instance()), lock(machine.mutex) {
        context = current_context;
        if (!machine.initialised) error = not_initialized;
        else if (!context) error = invalid_context;
        else if (context->dead) error = context_is_destroyed;
        else {
            device = context->device;
            if (device->lost != 0) error = device->lost;
            else if (context->sticky != 0) error = context->sticky;
            else inject(name, *device);
        }
    }

    Machine &machine;
    std::unique_lock<std::mutex> lock;
    Device *device = nullptr;
    Context *context = nullptr;
    int error = success;

private:
    void inject(const char *name, Device &on) {
        on.calls++;
        for (CallFailure &failure : on.call_failures) {
            if (failure.call != name || !failure.fires()) continue;
            error = failure.code;
            machine.last_fault = std::string(name) + ": failure injected by a test";
            if (failure.sticky && context && context->sticky == 0) context->sticky = failure.code;
            return;
        }
    }
};

#define IN_CONTEXT(name)                    \
    Call call(name, Call::InContext{});     \
    if (call.error != success) return call.error
#define ON_DEVICE(name, number)             \
    Call call(name, number);                \
    if (call.error != success) return call.error
#define ANYWHERE(name)                      \
    Call call(name);                        \
    if (call.error != success) return call.error

// The stream that a handle names in the current context; null is the context's default stream.
std::shared_ptr<Stream> stream_of(Call &call, void *handle) {
    if (!handle) {
        if (!call.context->default_stream) call.context->default_stream = call.machine.make_stream(call.context, 0);
        return call.context->default_stream;
    }
    const auto found = call.context->streams.find(handle);
    if (found == call.context->streams.end() || found->second->closing) return nullptr;
    return found->second;
}

Event *event_of(Call &call, void *handle) {
    const auto found = call.context->events.find(handle);
    return found == call.context->events.end() ? nullptr : found->second.get();
}

Function *function_of(Call &call, void *handle) {
    for (auto &[address, module] : call.context->modules)
        for (auto &[name, function] : module->functions)
            if (&function == handle) return &function;
    return nullptr;
}

bool device_range(Call &call, uintptr_t handle, uint64_t bytes) {
    const Arena &memory = *call.device->memory;
    return memory.holds_handle(handle) && memory.reach(memory.real_of_handle(handle), bytes) == Verdict::ok;
}

enum class HostRange { pinned, pageable, invalid };
HostRange host_range(Call &call, const void *p, uint64_t bytes) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    if (address == 0 || call.machine.is_handle(address)) return HostRange::invalid;
    if (!call.machine.host->holds(address)) return HostRange::pageable;
    return call.machine.host->reach(address, bytes) == Verdict::ok ? HostRange::pinned : HostRange::invalid;
}

int refuse(Call &call, int code, const std::string &reason) {
    call.machine.last_fault = reason;
    return code;
}

struct ErrorText {
    int code;
    const char *name, *text;
};
constexpr ErrorText error_texts[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

}  // namespace

// ---- Errors, version, devices

API(cuGetErrorName, int code, const char **name) {
    for (const ErrorText &e : error_texts)
        if (e.code == code) return *name = e.name, success;
    *name = nullptr;
    return invalid_value;
}

API(cuGetErrorString, int code, const char **text) {
    for (const ErrorText &e : error_texts)
        if (e.code == code) return *text = e.text, success;
    *text = nullptr;
    return invalid_value;
}

API(cuInit, unsigned flags) {
    if (flags != 0) return invalid_value;
    Machine &machine = Machine::instance();
    std::lock_guard<std::mutex> lock(machine.mutex);
    for (CallFailure &failure : machine.devices[0]->call_failures)
        if (failure.call == "cuInit" && failure.fires()) return failure.code;
    if (machine.device_count == 0) return no_device;
    machine.initialised = true;
    return success;
}

API(cuDriverGetVersion, int *version) {
    Machine &machine = Machine::instance();
    std::lock_guard<std::mutex> lock(machine.mutex);
    *version = machine.driver_version;
    return success;
}

API(cuDeviceGetCount, int *count) {
    ANYWHERE("cuDeviceGetCount");
    *count = call.machine.device_count;
    return success;
}

API(cuDeviceGet, int *device, int number) {
    ON_DEVICE("cuDeviceGet", number);
    *device = number;
    return success;
}

API(cuDeviceGetName, char *name, int length, int number) {
    ON_DEVICE("cuDeviceGetName", number);
    snprintf(name, static_cast<size_t>(length), "ctrutls simulator %d", number);
    return success;
}

API(cuDeviceGetUuid_v2, unsigned char *uuid, int number) {
    ON_DEVICE("cuDeviceGetUuid", number);
    memset(uuid, 0, 16);
    uuid[15] = static_cast<unsigned char>(number);
    return success;
}

API(cuDeviceTotalMem_v2, size_t *bytes, int number) {
    ON_DEVICE("cuDeviceTotalMem", number);
    *bytes = call.device->memory->capacity();
    return success;
}

API(cuDeviceGetPCIBusId, char *id, int length, int number) {
    ON_DEVICE("cuDeviceGetPCIBusId", number);
    if (length < 13) return invalid_value;
    snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(0x10 + number) & 0xff);
    return success;
}

API(cuDeviceGetAttribute, int *value, int attribute, int number) {
    ON_DEVICE("cuDeviceGetAttribute", number);
    switch (attribute) {
    case 1: *value = 1024; break;                                    // MAX_THREADS_PER_BLOCK
    case 8: *value = static_cast<int>(default_shared_limit); break;  // MAX_SHARED_MEMORY_PER_BLOCK
    case 10: *value = 32; break;                                     // WARP_SIZE
    case 13: *value = 1000000; break;                                // CLOCK_RATE, kHz
    case 16: *value = call.device->multiprocessors; break;           // MULTIPROCESSOR_COUNT
    case 19: *value = 1; break;                                      // CAN_MAP_HOST_MEMORY
    case 31: *value = 1; break;                                      // CONCURRENT_KERNELS
    case 33: *value = 0x10 + number; break;                          // PCI_BUS_ID
    case 39: *value = 2048; break;                                   // MAX_THREADS_PER_MULTIPROCESSOR
    case 40: *value = 2; break;                                      // ASYNC_ENGINE_COUNT
    case 75: *value = call.device->major; break;                     // COMPUTE_CAPABILITY_MAJOR
    case 76: *value = call.device->minor; break;                     // COMPUTE_CAPABILITY_MINOR
    case 78: *value = 1; break;                                      // STREAM_PRIORITIES_SUPPORTED
    case 81: *value = static_cast<int>(shared_per_multiprocessor); break;
    case 82: *value = 65536; break;                                  // MAX_REGISTERS_PER_MULTIPROCESSOR
    case 97: *value = static_cast<int>(shared_limit_opt_in); break;  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    case 106: *value = 32; break;                                    // MAX_BLOCKS_PER_MULTIPROCESSOR
    case 111: *value = 1024; break;                                  // RESERVED_SHARED_MEMORY_PER_BLOCK
    default: *value = 0;
    }
    return success;
}

// ---- Contexts

API(cuDevicePrimaryCtxRetain, void **context, int number) {
    ON_DEVICE("cuDevicePrimaryCtxRetain", number);
    if (call.device->permanent != 0) return call.device->permanent;
    if (!call.device->primary) call.machine.make_primary(*call.device);
    call.device->retained++;
    *context = call.device->primary.get();
    return success;
}

API(cuDevicePrimaryCtxRelease_v2, int number) {
    Call call("cuDevicePrimaryCtxRelease", number);
    if (call.error != success && call.error != (call.device ? call.device->lost : 0)) return call.error;
    if (!call.device || call.device->retained == 0) return invalid_context;
    if (--call.device->retained == 0) call.machine.destroy_primary(*call.device, call.lock);
    return call.error;
}

API(cuDevicePrimaryCtxReset_v2, int number) {
    ON_DEVICE("cuDevicePrimaryCtxReset", number);
    if (call.device->primary) call.machine.destroy_primary(*call.device, call.lock);
    return success;
}

API(cuDevicePrimaryCtxGetState, int number, unsigned *flags, int *active) {
    ON_DEVICE("cuDevicePrimaryCtxGetState", number);
    *flags = call.device->flags;
    *active = call.device->primary != nullptr;
    return success;
}

API(cuDevicePrimaryCtxSetFlags_v2, int number, unsigned flags) {
    ON_DEVICE("cuDevicePrimaryCtxSetFlags", number);
    call.device->flags = flags;
    return success;
}

API(cuCtxSetCurrent, void *context) {
    ANYWHERE("cuCtxSetCurrent");
    Context *wanted = static_cast<Context *>(context);
    bool known = wanted == nullptr;
    for (const auto &device : call.machine.devices) known = known || device->primary.get() == wanted;
    for (const auto &old : call.machine.graveyard)
        if (old.get() == wanted) return context_is_destroyed;
    if (!known) return invalid_context;
    current_context = wanted;
    return success;
}

API(cuCtxGetCurrent, void **context) {
    ANYWHERE("cuCtxGetCurrent");
    *context = current_context;
    return success;
}

API(cuCtxGetDevice, int *device) {
    IN_CONTEXT("cuCtxGetDevice");
    *device = call.device->number;
    return success;
}

API(cuCtxSynchronize, void) {
    IN_CONTEXT("cuCtxSynchronize");
    return call.machine.wait_for(call.context, call.lock, [&] {
        for (const auto &[handle, stream] : call.context->streams)
            if (!call.machine.idle(*stream)) return false;
        return true;
    });
}

API(cuCtxGetStreamPriorityRange, int *least, int *greatest) {
    IN_CONTEXT("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return success;
}

// ---- Modules and functions

namespace {

// link finds the PTX's entries among the kernels compiled into this library.
std::string link(Module &module, const Device &device, int driver_version, int &code) {
    code = invalid_ptx;
    // PTX ISA 7.x came with CUDA 11.x, 8.x with 12.x, 9.x with 13.x.
    const int major = module.ptx.version / 10, minor = module.ptx.version % 10;
    if ((major + 4) * 1000 + minor * 10 > driver_version) {
        code = unsupported_ptx_version;
        return "PTX " + std::to_string(major) + "." + std::to_string(minor) + " needs a newer driver";
    }
    if (module.ptx.target > device.major * 10 + device.minor) {
        code = no_binary_for_gpu;
        return "PTX for sm_" + std::to_string(module.ptx.target) + " does not run on sm_" + std::to_string(device.major * 10 + device.minor);
    }
    for (const PtxEntry &entry : module.ptx.entries) {
        const simt::Kernel *kernel = find_kernel(entry.name.c_str());
        if (!kernel) return "entry " + entry.name + " is not compiled into the simulator: is REGISTER_KERNEL missing, or `make sim` to be run again?";
        bool same = static_cast<size_t>(kernel->parameter_count) == entry.parameter_bytes.size();
        for (int i = 0; same && i < kernel->parameter_count; i++) same = kernel->parameters[i].bytes == entry.parameter_bytes[static_cast<size_t>(i)];
        if (!same) return "entry " + entry.name + " has other parameters in the PTX than in the simulator: `make ptx sim` builds both from one source";
        if (entry.static_shared_bytes > default_shared_limit) return "entry " + entry.name + " has more than 48 KiB of static shared memory";
        module.functions[entry.name] = {&module, kernel, entry, default_shared_limit - entry.static_shared_bytes};
    }
    code = success;
    return "";
}

// CUjit_option
constexpr int jit_error_log = 5, jit_error_log_bytes = 6;

}  // namespace

API(cuModuleLoadDataEx, void **handle, const void *image, unsigned count, int *options, void **values) {
    // Reading a large text takes long, and needs no mutex.
    auto module = std::make_unique<Module>();
    const bool machine_code = memcmp(image, "\x7f""ELF", 4) == 0;
    std::string wrong = machine_code ? "the simulator runs no machine code: load the PTX" : parse_ptx(static_cast<const char *>(image), module->ptx);
    IN_CONTEXT("cuModuleLoadData");
    module->context = call.context;
    int code = machine_code ? no_binary_for_gpu : invalid_ptx;
    if (wrong.empty()) wrong = link(*module, *call.device, call.machine.driver_version, code);
    if (code == success) {
        *handle = module.get();
        call.context->modules[module.get()] = std::move(module);
        return success;
    }
    char *log = nullptr;
    size_t room = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == jit_error_log) log = static_cast<char *>(values[i]);
        if (options[i] == jit_error_log_bytes) room = reinterpret_cast<uintptr_t>(values[i]);
    }
    if (log && room > 0) snprintf(log, room, "%s", wrong.c_str());
    return refuse(call, code, wrong);
}

API(cuModuleLoadData, void **handle, const void *image) { return cuModuleLoadDataEx(handle, image, 0, nullptr, nullptr); }

API(cuModuleUnload, void *handle) {
    IN_CONTEXT("cuModuleUnload");
    return call.context->modules.erase(handle) ? success : invalid_handle;
}

API(cuModuleGetFunction, void **function, void *handle, const char *name) {
    IN_CONTEXT("cuModuleGetFunction");
    const auto found = call.context->modules.find(handle);
    if (found == call.context->modules.end()) return invalid_handle;
    const auto entry = found->second->functions.find(name);
    if (entry == found->second->functions.end()) return not_found;
    *function = &entry->second;
    return success;
}

API(cuFuncGetAttribute, int *value, int attribute, void *handle) {
    IN_CONTEXT("cuFuncGetAttribute");
    const Function *function = function_of(call, handle);
    if (!function) return invalid_handle;
    switch (attribute) {
    case 0: *value = static_cast<int>(function->entry.max_threads); break;          // MAX_THREADS_PER_BLOCK
    case 1: *value = static_cast<int>(function->entry.static_shared_bytes); break;  // SHARED_SIZE_BYTES
    case 2: *value = 0; break;                                                      // CONST_SIZE_BYTES
    case 3: *value = static_cast<int>(function->entry.local_bytes); break;          // LOCAL_SIZE_BYTES
    case 4: *value = 32; break;                                                     // NUM_REGS: PTX does not tell
    case 5: *value = function->module->ptx.target; break;                           // PTX_VERSION
    case 6: *value = call.device->major * 10 + call.device->minor; break;           // BINARY_VERSION
    case 8: *value = static_cast<int>(function->max_dynamic_shared); break;         // MAX_DYNAMIC_SHARED_SIZE_BYTES
    default: return invalid_value;
    }
    return success;
}

API(cuFuncSetAttribute, void *handle, int attribute, int value) {
    IN_CONTEXT("cuFuncSetAttribute");
    Function *function = function_of(call, handle);
    if (!function) return invalid_handle;
    switch (attribute) {
    case 8:  // MAX_DYNAMIC_SHARED_SIZE_BYTES
        if (value < 0 || static_cast<uint32_t>(value) + function->entry.static_shared_bytes > shared_limit_opt_in) return invalid_value;
        function->max_dynamic_shared = static_cast<uint32_t>(value);
        return success;
    case 9: return value < -1 || value > 100 ? invalid_value : success;  // PREFERRED_SHARED_MEMORY_CARVEOUT
    default: return invalid_value;
    }
}

API(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, void *handle, int threads, size_t dynamic) {
    IN_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    const Function *function = function_of(call, handle);
    if (!function) return invalid_handle;
    if (threads <= 0) return invalid_value;
    if (static_cast<uint32_t>(threads) > function->entry.max_threads || dynamic > function->max_dynamic_shared) return *blocks = 0, success;
    const uint64_t shared = function->entry.static_shared_bytes + dynamic + 1024;
    *blocks = static_cast<int>(std::min({uint64_t{32}, uint64_t{2048} / static_cast<uint64_t>(threads), shared_per_multiprocessor / shared}));
    return success;
}

// ---- Memory

API(cuMemAlloc_v2, uint64_t *handle, size_t bytes) {
    IN_CONTEXT("cuMemAlloc");
    if (bytes == 0) return invalid_value;
    Arena &memory = *call.device->memory;
    const int64_t offset = memory.allocate(bytes);
    if (offset < 0) return out_of_memory;
    *handle = memory.handle_of_real(memory.at(static_cast<uint64_t>(offset)));
    return success;
}

API(cuMemFree_v2, uint64_t handle) {
    IN_CONTEXT("cuMemFree");
    if (handle == 0) return success;
    Arena &memory = *call.device->memory;
    if (!memory.holds_handle(handle) || !memory.release(memory.offset(memory.real_of_handle(handle)))) return invalid_value;
    return success;
}

API(cuMemGetInfo_v2, size_t *free, size_t *total) {
    IN_CONTEXT("cuMemGetInfo");
    *total = call.device->memory->capacity();
    *free = *total - std::min(*total, static_cast<size_t>(call.device->memory->live_bytes()));
    return success;
}

API(cuMemHostAlloc, void **p, size_t bytes, unsigned flags) {
    IN_CONTEXT("cuMemHostAlloc");
    if (bytes == 0 || flags > 7) return invalid_value;
    const int64_t offset = call.machine.host->allocate(bytes);
    if (offset < 0) return out_of_memory;
    call.machine.pinned[static_cast<uint64_t>(offset)] = {call.context, (flags & 1) != 0, (flags & 2) != 0};
    *p = reinterpret_cast<void *>(call.machine.host->at(static_cast<uint64_t>(offset)));
    return success;
}

API(cuMemFreeHost, void *p) {
    IN_CONTEXT("cuMemFreeHost");
    Arena &host = *call.machine.host;
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    if (!host.holds(address) || !host.release(host.offset(address))) return invalid_value;
    call.machine.pinned.erase(host.offset(address));
    return success;
}

API(cuMemHostGetDevicePointer_v2, uint64_t *handle, void *p, unsigned flags) {
    IN_CONTEXT("cuMemHostGetDevicePointer");
    Arena &host = *call.machine.host;
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    if (flags != 0 || !host.holds(address)) return invalid_value;
    const auto found = call.machine.pinned.find(host.offset(address));
    if (found == call.machine.pinned.end() || !found->second.mapped) return invalid_value;
    if (found->second.context != call.context && !found->second.portable) return invalid_value;
    *handle = host.handle_of_real(address);
    return success;
}

API(cuMemsetD8Async, uint64_t handle, unsigned char value, size_t bytes, void *stream_handle) {
    IN_CONTEXT("cuMemsetD8Async");
    const auto stream = stream_of(call, stream_handle);
    if (!stream) return invalid_handle;
    if (bytes == 0) return success;
    if (!device_range(call, handle, bytes)) return refuse(call, invalid_value, "memset: not within one device allocation");
    Context *context = call.context;
    call.machine.enqueue(*stream, {Work::fill, [=] { return Machine::instance().fill(context, handle, value, bytes); }, nullptr});
    return success;
}

API(cuMemcpyHtoDAsync_v2, uint64_t handle, const void *from, size_t bytes, void *stream_handle) {
    IN_CONTEXT("cuMemcpyHtoDAsync");
    const auto stream = stream_of(call, stream_handle);
    if (!stream) return invalid_handle;
    if (bytes == 0) return success;
    if (!device_range(call, handle, bytes)) return refuse(call, invalid_value, "copy to device: the destination is not within one device allocation");
    const HostRange range = host_range(call, from, bytes);
    if (range == HostRange::invalid) return refuse(call, invalid_value, "copy to device: the source is no host memory, or runs past its end");
    Context *context = call.context;
    if (range == HostRange::pinned) {
        call.machine.enqueue(*stream, {Work::to_device, [=] { return Machine::instance().copy_to_device(context, handle, from, bytes, true); }, nullptr});
        return success;
    }
    call.device->pageable_copies++;
    if (!call.machine.pageable_allowed) return refuse(call, invalid_value, "copy to device: the source is not pinned");
    // Like the driver, return when the source has been read.
    auto staged = std::make_shared<std::vector<uint8_t>>(static_cast<const uint8_t *>(from), static_cast<const uint8_t *>(from) + bytes);
    call.machine.enqueue(*stream, {Work::to_device, [=] { return Machine::instance().copy_to_device(context, handle, staged->data(), bytes, false); }, nullptr});
    return success;
}

API(cuMemcpyDtoHAsync_v2, void *to, uint64_t handle, size_t bytes, void *stream_handle) {
    IN_CONTEXT("cuMemcpyDtoHAsync");
    const auto stream = stream_of(call, stream_handle);
    if (!stream) return invalid_handle;
    if (bytes == 0) return success;
    if (!device_range(call, handle, bytes)) return refuse(call, invalid_value, "copy to host: the source is not within one device allocation");
    const HostRange range = host_range(call, to, bytes);
    if (range == HostRange::invalid) return refuse(call, invalid_value, "copy to host: the destination is no host memory, or runs past its end");
    Context *context = call.context;
    if (range == HostRange::pinned) {
        call.machine.enqueue(*stream, {Work::to_host, [=] { return Machine::instance().copy_to_host(context, to, handle, bytes, true); }, nullptr});
        return success;
    }
    call.device->pageable_copies++;
    if (!call.machine.pageable_allowed) return refuse(call, invalid_value, "copy to host: the destination is not pinned");
    // Like the driver, return when the destination has been written.
    auto point = std::make_shared<Point>();
    call.machine.enqueue(*stream, {Work::to_host, [=] { return Machine::instance().copy_to_host(context, to, handle, bytes, false); }, point});
    return call.machine.wait_for(context, call.lock, [&] { return point->done; });
}

// ---- Streams and events

API(cuStreamCreateWithPriority, void **handle, unsigned flags, int priority) {
    IN_CONTEXT("cuStreamCreate");
    if (flags > 1) return invalid_value;
    *handle = call.machine.make_stream(call.context, std::max(-5, std::min(0, priority))).get();
    return success;
}

API(cuStreamCreate, void **handle, unsigned flags) { return cuStreamCreateWithPriority(handle, flags, 0); }

API(cuStreamGetPriority, void *handle, int *priority) {
    IN_CONTEXT("cuStreamGetPriority");
    const auto stream = stream_of(call, handle);
    if (!stream) return invalid_handle;
    *priority = stream->priority;
    return success;
}

API(cuStreamDestroy_v2, void *handle) {
    IN_CONTEXT("cuStreamDestroy");
    if (!handle) return invalid_handle;
    const auto stream = stream_of(call, handle);
    if (!stream) return invalid_handle;
    call.machine.close_stream(*stream);
    return success;
}

API(cuStreamQuery, void *handle) {
    IN_CONTEXT("cuStreamQuery");
    const auto stream = stream_of(call, handle);
    if (!stream) return invalid_handle;
    return call.machine.idle(*stream) ? success : not_ready;
}

API(cuStreamSynchronize, void *handle) {
    IN_CONTEXT("cuStreamSynchronize");
    const auto stream = stream_of(call, handle);
    if (!stream) return invalid_handle;
    return call.machine.wait_for(call.context, call.lock, [&] { return call.machine.idle(*stream); });
}

API(cuStreamWaitEvent, void *handle, void *event_handle, unsigned flags) {
    IN_CONTEXT("cuStreamWaitEvent");
    if (flags > 1) return invalid_value;
    const auto stream = stream_of(call, handle);
    // An event may come from another device's context.
    Event *event = event_of(call, event_handle);
    for (const auto &device : call.machine.devices) {
        if (event || !device->primary) continue;
        const auto found = device->primary->events.find(event_handle);
        if (found != device->primary->events.end()) event = found->second.get();
    }
    if (!stream || !event) return invalid_handle;
    if (!event->latest) return success;
    Context *context = call.context;
    call.machine.enqueue(*stream, {Work::wait, [context, point = event->latest] {
        Machine &machine = Machine::instance();
        std::unique_lock<std::mutex> lock(machine.mutex);
        machine.changed.wait(lock, [&] { return point->done || context->dead || context->sticky != 0; });
        return 0;
    }, nullptr});
    return success;
}

API(cuEventCreate, void **handle, unsigned flags) {
    IN_CONTEXT("cuEventCreate");
    if (flags > 3) return invalid_value;
    auto event = std::make_unique<Event>();
    event->context = call.context;
    event->timed = (flags & 2) == 0;
    *handle = event.get();
    call.context->events[event.get()] = std::move(event);
    return success;
}

API(cuEventDestroy_v2, void *handle) {
    IN_CONTEXT("cuEventDestroy");
    return call.context->events.erase(handle) ? success : invalid_handle;
}

API(cuEventRecord, void *handle, void *stream_handle) {
    IN_CONTEXT("cuEventRecord");
    Event *event = event_of(call, handle);
    const auto stream = stream_of(call, stream_handle);
    if (!event || !stream) return invalid_handle;
    event->latest = std::make_shared<Point>();
    call.machine.enqueue(*stream, {Work::event, [] { return 0; }, event->latest});
    return success;
}

API(cuEventQuery, void *handle) {
    IN_CONTEXT("cuEventQuery");
    const Event *event = event_of(call, handle);
    if (!event) return invalid_handle;
    return !event->latest || event->latest->done ? success : not_ready;
}

API(cuEventSynchronize, void *handle) {
    IN_CONTEXT("cuEventSynchronize");
    const Event *event = event_of(call, handle);
    if (!event) return invalid_handle;
    const auto point = event->latest;
    return call.machine.wait_for(call.context, call.lock, [&] { return !point || point->done; });
}

API(cuEventElapsedTime_v2, float *milliseconds, void *from_handle, void *to_handle) {
    IN_CONTEXT("cuEventElapsedTime");
    const Event *from = event_of(call, from_handle), *to = event_of(call, to_handle);
    if (!from || !to || !from->timed || !to->timed || !from->latest || !to->latest) return invalid_handle;
    if (!from->latest->done || !to->latest->done) return not_ready;
    *milliseconds = std::chrono::duration<float, std::milli>(to->latest->at - from->latest->at).count();
    return success;
}

API(cuEventElapsedTime, float *milliseconds, void *from, void *to) { return cuEventElapsedTime_v2(milliseconds, from, to); }

// ---- Launches

API(cuLaunchKernel, void *handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
    unsigned shared, void *stream_handle, void **parameters, void **extra) {
    IN_CONTEXT("cuLaunchKernel");
    const Function *function = function_of(call, handle);
    const auto stream = stream_of(call, stream_handle);
    if (!function || !stream) return invalid_handle;
    const uint64_t threads = static_cast<uint64_t>(block_x) * block_y * block_z;
    if (extra || grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_x > INT32_MAX || grid_y > 65535 || grid_z > 65535 || threads == 0 || threads > 1024 || block_z > 64)
        return refuse(call, invalid_value, "launch of " + function->entry.name + ": a dimension is out of range");
    if (threads > function->entry.max_threads)
        return refuse(call, invalid_value, "launch of " + function->entry.name + ": more threads than its __launch_bounds__");
    if (shared > function->max_dynamic_shared)
        return refuse(call, invalid_value, "launch of " + function->entry.name + ": more dynamic shared memory than cuFuncSetAttribute allowed");
    const int count = function->kernel->parameter_count;
    if (count > 0 && !parameters) return invalid_value;

    auto launch = std::make_unique<Launch>();
    launch->kernel = function->kernel;
    launch->grid = {grid_x, grid_y, grid_z};
    launch->block = {block_x, block_y, block_z};
    launch->dynamic_shared_bytes = shared;
    launch->shared_limit = shared_limit_opt_in;
    launch->device = call.device->memory.get();
    launch->host = call.machine.host.get();
    launch->seed = call.machine.seed;
    launch->step_limit = call.machine.step_limit;
    launch->tag = call.machine.launch_tag();
    launch->checks = call.machine.checks;
    // Parameters are copied now, as the driver does, and pointers moved from handles to the bytes they stand for. A pointer that is
    // no handle stays what it is, for the kernel to fault on.
    launch->argument_words.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; i++) {
        uint64_t &value = launch->argument_words[static_cast<size_t>(i)];
        memcpy(&value, parameters[i], function->kernel->parameters[i].bytes);
        if (function->kernel->parameters[i].pointer) {
            if (launch->device->holds_handle(value)) value = launch->device->real_of_handle(value);
            else if (launch->host->holds_handle(value)) value = launch->host->real_of_handle(value);
            else if (launch->host->holds(value) || launch->device->holds(value)) value = value ^ uint64_t{1} << 63;  // what only the host may use
        }
        launch->arguments.push_back(&value);
    }
    Machine &machine = call.machine;
    auto shared_launch = std::make_shared<std::unique_ptr<Launch>>(std::move(launch));
    machine.enqueue(*stream, {Work::kernel, [&machine, stream, function = *function, shared_launch] {
        return machine.run_kernel(stream, function, std::move(*shared_launch));
    }, nullptr});
    return success;
}
