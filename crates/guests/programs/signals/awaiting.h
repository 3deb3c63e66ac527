// What guests share that wait for something that signals bring about.
#ifndef UNSPOOL_GUESTS_AWAITING_H
#define UNSPOOL_GUESTS_AWAITING_H

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "expect.h"

// Until a count is so high.
static inline void await(atomic_int *what, int least) {
    for (int rounds = 0; atomic_load(what) < least; rounds++) {
        EXPECT(rounds < 20000);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

// Whether a signal waits for the calling thread, or for the process.
static inline int is_pending(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

#endif
