// CTRU-Prime-761: every kernel of the set.
#define SET 761
#include "entries.cuh"
