// CTRU-Prime-653: products by tiled matrix products.
#define SET 653
#include "entries_tiled.cuh"
