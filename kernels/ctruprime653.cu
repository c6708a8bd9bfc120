// CTRU-Prime-653: every kernel of the set.
#define SET 653
#include "entries.cuh"
