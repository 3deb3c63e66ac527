// Dies by abort in a second thread, with a handler that returns.
// flags: -O2 -pthread
// ending: signal 6
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "expect.h"

static void handler(int signal) {
    if (signal == SIGABRT && write(1, "aborting\n", 9) != 9)
        _exit(1);
}

static void *end(void *unused) {
    abort();
    return unused;
}

int main(void) {
    pthread_t thread;
    signal(SIGABRT, handler);
    pthread_create(&thread, NULL, end, NULL);
    pthread_join(thread, NULL);
    return 0;
}
