// Work of exact length. Sleeping takes no processor, so that planted times are what they
// are, however many threads share however few processors.
#ifndef PLANTED_H
#define PLANTED_H
#include <errno.h>
#include <omp.h>
#include <string.h>
#include <time.h>

static inline void work(int milliseconds)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += milliseconds % 1000 * 1000000L;
    end.tv_sec += milliseconds / 1000 + end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0) == EINTR) {
    }
}

// Whether to plant the loss: `without` is the negative control.
static inline int is_planted(int count, char **words)
{
    return count < 2 || strcmp(words[1], "without") != 0;
}
#endif
