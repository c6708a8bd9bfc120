// CTRU-Prime-1277: products by tiled matrix products.
#define SET 1277
#include "entries_tiled.cuh"
