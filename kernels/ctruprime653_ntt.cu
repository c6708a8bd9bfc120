// CTRU-Prime-653: products by the incomplete transform.
#define SET 653
#include "entries_ntt.cuh"
