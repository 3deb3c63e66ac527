// Spends known CPU time.

#ifndef UNSPOOL_GUESTS_BURN_H
#define UNSPOOL_GUESTS_BURN_H

#include <time.h>

// A function of its own in every build, so that it is on the call path.
#define APART __attribute__((noinline, noipa))

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

APART double burn(double seconds) {
    double end = now() + seconds;
    volatile double value = 1;
    while (now() < end)
        for (int i = 0; i < 20000; i++)
            value = value * 1.0000001;
    return value;
}

#endif
