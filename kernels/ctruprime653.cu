// CTRU-Prime-653: hashes, inversion, whole operations, and products on the Tensor Cores.
#define SET 653
#include "entries.cuh"
