// Four threads use CPU time, each in a function of its own, and start and join others all the time,
// for so many seconds as the argument says, or a short while without one.
// flags: -O2 -fomit-frame-pointer -pthread

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline, noipa))

static volatile int is_over;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

APART double burn(double seconds) {
    double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;
    volatile double value = 1;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 2000; i++)
            value = value * 1.0000001;
    return value;
}

// What follows each call keeps it from being a tail call.
APART double short_thread(void) {
    return burn(0.002) + 1;
}

static void *begin(void *unused) {
    return short_thread() > 0 ? unused : NULL;
}

#define LONG_THREAD(name)                                                                         \
    APART double name(void) {                                                                      \
        double value = 0;                                                                          \
        while (!is_over) {                                                                         \
            value += burn(0.004);                                                                  \
            pthread_t thread;                                                                      \
            if (pthread_create(&thread, NULL, begin, NULL) == 0)                                   \
                pthread_join(thread, NULL);                                                        \
        }                                                                                          \
        return value;                                                                              \
    }                                                                                              \
    static void *begin_##name(void *unused) {                                                      \
        return name() > 0 ? unused : NULL;                                                         \
    }

LONG_THREAD(first)
LONG_THREAD(second)
LONG_THREAD(third)
LONG_THREAD(fourth)

int main(int count, char **arguments) {
    void *(*begins[])(void *) = {begin_first, begin_second, begin_third, begin_fourth};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, begins[i], NULL) != 0)
            return 1;
    usleep(count > 1 ? 1000000 * atoi(arguments[1]) : 100000);
    is_over = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
