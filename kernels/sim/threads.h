#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>

namespace sim {

// start_thread runs body on a thread that leaves the host program's signals to the host program.
template <class F>
void start_thread(F body) {
    sigset_t all, before;
    sigfillset(&all);
    for (int fatal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fatal);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    std::thread(body).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace sim
