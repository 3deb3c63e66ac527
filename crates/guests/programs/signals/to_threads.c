// Signals sent to chosen threads are handled there, and one sent to the process goes to the
// only thread that does not block it.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "expect.h"

enum { THREADS = 4 };

static _Thread_local int me = -1;
static atomic_int counts[THREADS], ready, stop;

static void handler(int signal) {
    (void)signal;
    EXPECT(me >= 0);
    atomic_fetch_add(&counts[me], 1);
}

static void *run(void *argument) {
    me = (int)(size_t)argument;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(me == 2 ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&stop)) {
        // No system call: the signal must get in by itself.
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    while (atomic_load(&ready) < THREADS)
        usleep(100);
    for (int i = 0; i < 40; i++) {
        int before = atomic_load(&counts[i % THREADS]);
        pthread_kill(threads[i % THREADS], SIGUSR1);
        while (atomic_load(&counts[i % THREADS]) == before)
            usleep(100);
    }
    kill(getpid(), SIGUSR2);
    while (atomic_load(&counts[2]) < 11)
        usleep(100);
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("%d ", counts[i]);
    }
    puts("");
    return 0;
}
