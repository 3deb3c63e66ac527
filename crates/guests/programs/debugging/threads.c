// Three threads call a function a known number of times; one of them once writes beyond its
// array, into the word behind. With `crash` the program ends by a fault, with `wait` by a signal.
// flags: -g -O1 -pthread
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 20, DEFECT_THREAD = 1, DEFECT_ROUND = 7 };

struct {
    volatile long slots[4];
    volatile long limit;
    volatile long quiet;
} state = {.limit = 1000, .quiet = 5};
int visits;

__attribute__((noinline)) void visit(long thread, long index) {
    __atomic_fetch_add(&visits, 1, __ATOMIC_SEQ_CST);
    // The array has 4 elements: the defect is here.
    state.slots[index] = thread;
}

__attribute__((noinline)) void never(void) { state.quiet = 6; }

static void *work(void *argument) {
    long thread = (long)argument;
    for (long round = 0; round < ROUNDS; round++) {
        int defect = thread == DEFECT_THREAD && round == DEFECT_ROUND;
        visit(thread, defect ? 4 : thread);
    }
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    if (visits > 0) never();
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    visit(3, 3);
    printf("%d visits, limit %ld, quiet %ld\n", visits, state.limit, state.quiet);
    fflush(stdout);
    if (count > 1 && strcmp(arguments[1], "crash") == 0) {
        volatile int *nowhere = (int *)8;
        *nowhere = 1;
    }
    while (count > 1 && strcmp(arguments[1], "wait") == 0) {
        if (state.quiet == 7) return 7;
        for (volatile int i = 0; i < 1000000; i++) {}
        usleep(1000);
    }
    return 0;
}
