// The user and group of a process with threads change in all of them: the C library sends each
// thread a signal for that, while it computes, sleeps, or blocks all signals that it can.
// flags: -O1 -pthread -D_GNU_SOURCE
// variants: static
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"

enum { THREADS = 3, ROUNDS = 30 };
static atomic_int stop, wanted, seen[THREADS];

static void *look(void *number) {
    long own = (long)number;
    if (own == 2) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
    }
    while (!atomic_load(&stop)) {
        int now = atomic_load(&wanted);
        if ((int)syscall(SYS_getegid) == now)
            atomic_store(&seen[own], now);
        if (own == 1)
            nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    int own = getegid(), is_root = geteuid() == 0;
    atomic_store(&wanted, own);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, look, (void *)i);
    for (int round = 0; round < ROUNDS; round++) {
        int next = is_root ? 1000 + round : own;
        EXPECT(setegid(next) == 0);
        atomic_store(&wanted, next);
        for (int i = 0; i < THREADS; i++)
            while (atomic_load(&seen[i]) != next)
                nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    EXPECT(setegid(own) == 0);
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("one identity");
    return 0;
}
