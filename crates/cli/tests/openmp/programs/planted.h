// Work of exact length. Sleeping takes no processor, so that planted times are what they
// are, however many threads share however few processors.
#ifndef PLANTED_H
#define PLANTED_H
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// What was not as planted: a busy machine wakes threads late. The program says so itself at
// its end, so that whether a run counts does not depend on what is reported of it.
static long long planted_start, planted_late;

static inline long long planted_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// What counts starts with the program: a busy machine may take long to start the runtime.
static long long planted_loaded;

static void planted_load(void)
{
    planted_loaded = planted_now();
}

// Before the constructors of libraries, in programs.
#if defined(__PIC__) && !defined(__PIE__)
#define PLANTED_FIRST ".init_array"
#else
#define PLANTED_FIRST ".preinit_array"
#endif
__attribute__((section(PLANTED_FIRST), used)) static void (*planted_first)(void) = planted_load;

static inline void planted_begin(void)
{
    omp_get_max_threads();
    planted_start = planted_loaded;
}

// And ends here, or with the program.
__attribute__((destructor)) static void planted_end(void)
{
    if (planted_start)
        fprintf(stderr, "planted: elapsed %.6f late %.6f\n", (planted_now() - planted_start) / 1e9,
                planted_late / 1e9);
    planted_start = 0;
}

static inline void work(int milliseconds)
{
    long long end = planted_now() + milliseconds * 1000000LL;
    struct timespec until = {end / 1000000000, end % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == EINTR) {
    }
    __atomic_fetch_add(&planted_late, planted_now() - end, __ATOMIC_RELAXED);
}

// Whether to plant the loss: `without` is the negative control.
static inline int is_planted(int count, char **words)
{
    planted_begin();
    return count < 2 || strcmp(words[1], "without") != 0;
}
#endif
