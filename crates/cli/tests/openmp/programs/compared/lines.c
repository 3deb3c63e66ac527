/* Counters of several threads, each written by one of them: in the same cache line, or, with
 * APART, in lines of their own. */
#include <stdio.h>

#ifdef APART
enum { STEP = 32 };
#else
enum { STEP = 1 };
#endif
enum { COUNTERS = 4, ROUNDS = 5000000 };

static long counters[COUNTERS * STEP + 64];

int main(void)
{
#pragma omp parallel for schedule(static)
    for (int counter = 0; counter < COUNTERS; counter++)
        for (int round = 0; round < ROUNDS; round++)
            __atomic_fetch_add(&counters[32 + counter * STEP], 1, __ATOMIC_RELAXED);
    printf("%ld\n", counters[32]);
    return 0;
}
