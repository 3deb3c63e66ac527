// Threads that contend for one line are sent signals whose handler writes that line too.
// flags: -O2 -pthread
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "expect.h"

enum { THREADS = 3, ADDS = 3000, SIGNALS = 200 };

static _Alignas(64) atomic_long by_threads;
static atomic_long by_handlers;
static atomic_int running;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&by_handlers, 1);
}

static void *add(void *unused) {
    for (int i = 0; i < ADDS; i++)
        atomic_fetch_add(&by_threads, 1);
    atomic_fetch_sub(&running, 1);
    while (atomic_load(&running) >= 0)
        usleep(1000);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = handler};
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    atomic_store(&running, THREADS);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, add, NULL) == 0);
    // Standard signals do not queue: the next is sent when the last has arrived.
    for (long i = 0; i < SIGNALS; i++) {
        EXPECT(pthread_kill(threads[i % THREADS], SIGUSR1) == 0);
        while (atomic_load(&by_handlers) == i)
            usleep(100);
    }
    while (atomic_load(&running) > 0)
        usleep(1000);
    atomic_store(&running, -1);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%ld by threads, %ld by handlers\n", atomic_load(&by_threads), atomic_load(&by_handlers));
    return 0;
}
