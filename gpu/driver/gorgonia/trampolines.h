/* Where the functions of libcuda lead; see trampolines.c. */
#ifndef CTRUTLS_TRAMPOLINES_H
#define CTRUTLS_TRAMPOLINES_H

#include <cuda.h>

/* What ctrutls_cuda_open says. */
enum {
    CTRUTLS_CUDA_OPEN = 0,
    CTRUTLS_CUDA_NO_LIBRARY = 1,  /* message says why */
    CTRUTLS_CUDA_NOT_CUDA = 2,    /* it has no cuInit or no cuDriverGetVersion */
    CTRUTLS_CUDA_SECOND = 3,      /* another library is open */
    CTRUTLS_CUDA_NO_VERSION = 4,  /* cuDriverGetVersion fails with result */
};

struct ctrutls_cuda_opening {
    char message[512];
    int version;  /* what cuDriverGetVersion says */
    int complete; /* whether all required functions are there */
    CUresult result;
};

/* Opens a library and, if it is complete, leads all functions to it. Callers take turns. */
int ctrutls_cuda_open(const char *path, struct ctrutls_cuda_opening *opening);

#endif
