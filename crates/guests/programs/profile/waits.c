// Waits at known places. With a number, two threads wake each other so often, and it says how long each
// of its waits took, and how often it waited.
// flags: -O2 -fomit-frame-pointer -pthread
// variants: static stripped

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "profile/burn.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t lock_is_held;
static int to_reader[2], to_main[2];
static double slept, wanted, was_read;
static long rounds;

// By the clock, also while the thread waits.
static double clock_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

APART double sleeps(double seconds) {
    double start = clock_now();
    struct timespec time = {0, (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
    return clock_now() - start;
}

APART double wants_the_lock(void) {
    pthread_barrier_wait(&lock_is_held);
    double start = clock_now();
    pthread_mutex_lock(&lock);
    double end = clock_now();
    pthread_mutex_unlock(&lock);
    return end - start;
}

APART double reads(int from) {
    char byte;
    double start = clock_now();
    if (read(from, &byte, 1) != 1)
        exit(3);
    return clock_now() - start;
}

static void *other_thread(void *unused) {
    wanted = wants_the_lock();
    was_read = reads(to_reader[0]);
    for (long round = 0; round < rounds; round++) {
        char byte = 1;
        if (read(to_reader[0], &byte, 1) != 1 || write(to_main[1], &byte, 1) != 1)
            exit(4);
    }
    return unused;
}

int main(int count, char **arguments) {
    rounds = count > 1 ? atol(arguments[1]) : 0;
    pthread_t thread;
    if (pipe(to_reader) != 0 || pipe(to_main) != 0)
        return 1;
    pthread_barrier_init(&lock_is_held, NULL, 2);
    if (pthread_create(&thread, NULL, other_thread, NULL) != 0)
        return 1;
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&lock_is_held);
    slept = sleeps(0.25);
    pthread_mutex_unlock(&lock);
    double value = burn(0.4);
    char byte = 1;
    if (write(to_reader[1], &byte, 1) != 1)
        return 1;
    for (long round = 0; round < rounds; round++)
        if (write(to_reader[1], &byte, 1) != 1 || read(to_main[0], &byte, 1) != 1)
            return 1;
    pthread_join(thread, NULL);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (count > 1)
        printf("%.6f %.6f %.6f %ld %ld\n", slept, wanted, was_read, usage.ru_nvcsw,
               usage.ru_nivcsw);
    return value > 0 ? 0 : 2;
}
