// A thread that accesses memory all the time gets the signal of a broken pipe as often as another
// one sends it, to the thread or to the process, and never else.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "expect.h"

static atomic_int handled, done;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void *access_memory(void *nothing) {
    static volatile unsigned words[1 << 12];
    unsigned random = 1;
    while (!atomic_load(&done)) {
        random = random * 1103515245 + 12345;
        words[random >> 20]++;
    }
    return nothing;
}

int main(int count, char **arguments) {
    int signals = count > 1 ? atoi(arguments[1]) : 300;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = handler}, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, access_memory, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int sent = 1; sent <= signals; sent++) {
        if (sent % 2)
            pthread_kill(thread, SIGPIPE);
        else
            kill(getpid(), SIGPIPE);
        for (int rounds = 0; atomic_load(&handled) < sent; rounds++) {
            EXPECT(rounds < 20000);
            nanosleep(&(struct timespec){0, 1000 + sent * 7919 % 100000}, NULL);
        }
    }
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    EXPECT(atomic_load(&handled) == signals);
    atomic_store(&done, 1);
    pthread_join(thread, NULL);
    printf("handled %d\n", signals);
    return 0;
}
