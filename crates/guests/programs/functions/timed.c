// Threads call a function until another one says that it is enough, or until a tenth of a second has
// passed; a number of milliseconds is another limit. Natively nobody ever says so.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "expect.h"

#define THREADS 2

__attribute__((noinline, noipa)) void step(volatile long *cell) { *cell += 1; }
__attribute__((noinline, noipa)) int is_enough(void) { return 0; }

static long milliseconds(void) {
    struct timespec now;
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *work(void *limit) {
    volatile long steps = 0;
    long end = milliseconds() + *(long *)limit;
    do step(&steps);
    while (!is_enough() && milliseconds() < end);
    EXPECT(steps > 0);
    return NULL;
}

int main(int count, char **words) {
    long limit = count > 1 ? atol(words[1]) : 100;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, work, &limit) == 0);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%d threads\n", THREADS);
    return 0;
}
