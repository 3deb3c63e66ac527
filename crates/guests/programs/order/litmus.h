// What the litmus programs share: two to four threads that run each round at the same time.
#ifndef UNSPOOL_GUESTS_LITMUS_H
#define UNSPOOL_GUESTS_LITMUS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "expect.h"

// Threads meet here; the last to arrive lets all go. Spins a little before it yields, so
// that on several processors the rounds do start together.
struct meeting {
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_int round;
    int threads;
};

static inline void meet(struct meeting *meeting) {
    int round = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 == meeting->threads) {
        atomic_store(&meeting->arrived, 0);
        atomic_store(&meeting->round, round + 1);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&meeting->round, memory_order_acquire) == round; spins++)
        if (spins > 2000)
            sched_yield();
}

#endif
