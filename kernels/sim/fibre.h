// Switching between stacks.
#pragma once

#include <stddef.h>

namespace sim {

// switch_stacks saves where the caller stands in *save and goes on where resume was saved.
void switch_stacks(void **save, void *resume);

// fresh_stack prepares [low, low + bytes) so that switching to the result calls entry, which never returns.
void *fresh_stack(void *low, size_t bytes, void (*entry)());

}  // namespace sim
