// Starts 240 threads, four at a time, which use 10 ms of CPU time each and end in different ways.
// flags: -O2 -pthread

#include <pthread.h>
#include <time.h>

static volatile double kept;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void burn(double seconds) {
    double end = now() + seconds;
    volatile double value = 1;
    while (now() < end)
        for (int i = 0; i < 2000; i++)
            value = value * 1.0000001;
    kept = value;
}

static void *short_life(void *way) {
    burn(0.01);
    switch ((long)way) {
    case 0:
        pthread_exit(way);
    case 1:
        pthread_cancel(pthread_self());
        pthread_testcancel();
        return NULL;
    default:
        return way;
    }
}

int main(void) {
    for (int round = 0; round < 60; round++) {
        pthread_t threads[4];
        for (long way = 0; way < 4; way++)
            if (pthread_create(&threads[way], NULL, short_life, (void *)way) != 0)
                return 1;
        for (long way = 0; way < 4; way++) {
            void *result;
            if (pthread_join(threads[way], &result) != 0)
                return 2;
            if (result != (way == 1 ? PTHREAD_CANCELED : (void *)way))
                return 3;
        }
    }
    return 0;
}
