#include "fibre.h"

#include <stdint.h>

#if defined(__x86_64__) && !defined(CTRUTLS_SIM_UCONTEXT)

// The callee-saved registers of the System V ABI; no system call, unlike swapcontext.
extern "C" void ctrutls_sim_switch(void **save, void *resume);
__asm__(R"(
.text
.hidden ctrutls_sim_switch
.globl ctrutls_sim_switch
.type ctrutls_sim_switch, @function
ctrutls_sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size ctrutls_sim_switch, . - ctrutls_sim_switch
)");

namespace sim {

void switch_stacks(void **save, void *resume) { ctrutls_sim_switch(save, resume); }

void *fresh_stack(void *low, size_t bytes, void (*entry)()) {
    // A function finds the stack 8 bytes off a multiple of 16, as after a call.
    void **top = reinterpret_cast<void **>(((reinterpret_cast<uintptr_t>(low) + bytes) & ~uintptr_t{15}) - 8);
    *--top = reinterpret_cast<void *>(entry);
    for (int saved = 0; saved < 6; saved++) *--top = nullptr;
    return top;
}

}  // namespace sim

#else

#include <ucontext.h>

namespace sim {

// A suspended stack is known by the context that lies on it.
void switch_stacks(void **save, void *resume) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t *>(resume));
}

void *fresh_stack(void *low, size_t bytes, void (*entry)()) {
    const size_t reserved = (sizeof(ucontext_t) + 63) & ~size_t{63};
    auto *context = reinterpret_cast<ucontext_t *>(static_cast<char *>(low) + bytes - reserved);
    getcontext(context);
    context->uc_stack.ss_sp = low;
    context->uc_stack.ss_size = bytes - reserved;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}

}  // namespace sim

#endif
