// CTRU-Prime-1277: hashes, inversion, whole operations, and products on the Tensor Cores.
#define SET 1277
#include "entries.cuh"
