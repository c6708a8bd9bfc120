//go:build gorgonia && cgo && linux && (amd64 || arm64)

/* Every function of libcuda that this package or gorgonia.org/cu calls, as a jump through a pointer that ctrutls_cuda_open sets. They are in the
 * program itself, so it does not need libcuda to be linked or to start, and hidden, so no library of CUDA's takes them for its own.
 */
#include "trampolines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static CUresult not_initialized(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static CUresult not_supported(void) { return CUDA_ERROR_NOT_SUPPORTED; }

/* cu calls cuInit when it is imported and ends the process if that fails. */
static CUresult init_later(unsigned int flags) {
    (void)flags;
    return CUDA_SUCCESS;
}

#if defined(__x86_64__)
#define JUMP(target) "jmp *" target "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(target) "adrp x16, " target "\nldr x16, [x16, #:lo12:" target "]\nbr x16\n"
#endif

#define CUDA_FUNCTION(name, parameters)                                      \
    __attribute__((visibility("hidden"), used)) void *ctrutls_to_##name;     \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.hidden " #name            \
            "\n.type " #name ", %function\n" #name ":\n" JUMP("ctrutls_to_" #name) ".size " #name ", . - " #name "\n");
#define CUDA_REQUIRED(name, parameters) CUDA_FUNCTION(name, parameters)
#include "cuda_functions.h"
#undef CUDA_FUNCTION
#undef CUDA_REQUIRED

static const struct function {
    const char *name;
    void **target;
    int required;
} functions[] = {
#define CUDA_FUNCTION(name, parameters) {#name, &ctrutls_to_##name, 0},
#define CUDA_REQUIRED(name, parameters) {#name, &ctrutls_to_##name, 1},
#include "cuda_functions.h"
#undef CUDA_FUNCTION
#undef CUDA_REQUIRED
};

#define EACH_FUNCTION(f) for (const struct function *f = functions; f < functions + sizeof functions / sizeof *functions; f++)

/* Before Go starts, and with it cu. */
__attribute__((constructor)) static void lead_nowhere(void) {
    EACH_FUNCTION(f) *f->target = (void *)not_initialized;
    ctrutls_to_cuInit = (void *)init_later;
}

static int has_all(void *library) {
    EACH_FUNCTION(f) {
        if (f->required && !dlsym(library, f->name)) return 0;
    }
    return 1;
}

static void lead_to(void *library) {
    EACH_FUNCTION(f) {
        void *function = dlsym(library, f->name);
        *f->target = function ? function : (void *)not_supported;
    }
}

int ctrutls_cuda_open(const char *path, struct ctrutls_cuda_opening *opening) {
    static void *in_use;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(opening->message, sizeof opening->message, "%s", dlerror());
        return CTRUTLS_CUDA_NO_LIBRARY;
    }
    CUresult (*get_version)(int *) = (CUresult(*)(int *))dlsym(library, "cuDriverGetVersion");
    if (!get_version || !dlsym(library, "cuInit")) {
        dlclose(library);
        return CTRUTLS_CUDA_NOT_CUDA;
    }
    if (in_use && in_use != library) {
        dlclose(library);
        return CTRUTLS_CUDA_SECOND;
    }
    opening->complete = has_all(library);
    opening->result = get_version(&opening->version);
    if (opening->result != CUDA_SUCCESS) {
        lead_to(library); /* for the error's text */
        in_use = library;
        return CTRUTLS_CUDA_NO_VERSION;
    }
    if (opening->complete && in_use != library) {
        lead_to(library);
        in_use = library;
    }
    return CTRUTLS_CUDA_OPEN;
}
