// CTRU-Prime-1277: products by the incomplete transform.
#define SET 1277
#include "entries_ntt.cuh"
