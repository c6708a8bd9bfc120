// CTRU-Prime-761: products by the incomplete transform.
#define SET 761
#include "entries_ntt.cuh"
