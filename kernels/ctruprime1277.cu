// CTRU-Prime-1277: every kernel of the set.
#define SET 1277
#include "entries.cuh"
