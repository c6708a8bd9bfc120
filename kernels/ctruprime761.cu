// CTRU-Prime-761: hashes, inversion, whole operations, and products on the Tensor Cores.
#define SET 761
#include "entries.cuh"
