// As many threads as the argument says divide 0.6 seconds of CPU time among them, and each spends 0.2
// seconds more on what the others do, too.
// flags: -O2 -pthread

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define APART __attribute__((noinline, noipa))

static volatile double kept;
static long threads = 1;

static double now(void) {
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

// What follows each call keeps it from being a tail call.
APART double divided(void) {
    return burn(0.6 / (double)threads) + 1;
}

APART double repeated(void) {
    return burn(0.2) + 2;
}

static void *work(void *unused) {
    kept = divided() + repeated();
    return unused;
}

int main(int count, char **arguments) {
    enum { MOST = 64 };
    pthread_t others[MOST];
    if (count > 1)
        threads = atol(arguments[1]);
    for (long i = 1; i < threads && i < MOST; i++)
        pthread_create(&others[i], 0, work, 0);
    work(0);
    for (long i = 1; i < threads && i < MOST; i++)
        pthread_join(others[i], 0);
    return 0;
}
