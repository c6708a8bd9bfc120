// CTRU-Prime-761: products by tiled matrix products.
#define SET 761
#include "entries_tiled.cuh"
