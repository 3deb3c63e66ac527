// One thread exits the process while others compute and block; exit handlers run once.
// flags: -O2 -pthread
// ending: exit 5
#include <pthread.h>
#include <stdlib.h>

#include "expect.h"

static void *compute(void *unused) {
    for (volatile long i = 0;; i++) {
    }
    return unused;
}

static void *block(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void *end_all(void *unused) {
    usleep(20000);
    exit(5);
    return unused;
}

static void say_so(void) {
    puts("exit handler");
}

int main(void) {
    void *(*bodies[])(void *) = {compute, block, compute, end_all};
    atexit(say_so);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
    }
    pause();
    return 0;
}
