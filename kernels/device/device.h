// The one header that every kernel includes. It lets the same CUDA C++ source be read by
//
//   clang (no CUDA toolkit)   -> the PTX that is committed and embedded
//   nvcc                      -> a second opinion on that PTX
//   g++ or clang++ as C++     -> the simulator (kernels/sim), with CTRUTLS_SIM defined
//
// Kernels are plain CUDA C++: threadIdx, __syncthreads, __shfl_xor_sync and so on, spelled as NVIDIA
// spells them. What CUDA C++ has no name for (mma, ldmatrix, cp.async, carry chains) has a wrapper here,
// so that kernels hold no inline PTX. README.md lists all of it, and the few rules that a kernel keeps.
#pragma once

#if defined(CTRUTLS_SIM)
#include "../sim/simt.h"
#else

#if defined(__NVCC__)
#include <stdint.h>
#elif defined(__clang__) && defined(__CUDA__)
#include "clang.h"
#else
#error "kernels are compiled by nvcc, by clang -x cuda, or as C++ with -DCTRUTLS_SIM (see kernels/device/README.md)"
#endif

// SHARED(type, name, dims) declares a block's static shared variable inside a function:
// SHARED(uint32_t, rows, [2][168]) is __shared__ uint32_t rows[2][168]. A scalar has no dims.
#define SHARED(type, name, ...) __shared__ type name __VA_ARGS__

// DYNAMIC_SHARED(type, name) declares `type *name`, the start of the launch's dynamic shared memory, aligned to 16 bytes.
#define DYNAMIC_SHARED(type, name)                                                                     \
    extern __shared__ __align__(16) unsigned char ctrutls_dynamic_shared[];                            \
    type *name = reinterpret_cast<type *>(ctrutls_dynamic_shared)

// REGISTER_KERNEL(name) follows a kernel's definition: the simulator looks kernels up by name.
#define REGISTER_KERNEL(name) static_assert(true, "")

#include "ptx.h"
#endif
