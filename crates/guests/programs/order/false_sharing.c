// Threads write neighbouring words of one line, each its own: nothing is lost.
// flags: -O1 -pthread
#include <pthread.h>

#include "expect.h"

enum { THREADS = 4, ADDS = 5000 };

static _Alignas(64) volatile int words[16];
static pthread_barrier_t start;

static void *add(void *argument) {
    volatile int *word = argument;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ADDS; i++)
        ++*word;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, add, (void *)&words[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
        printf("%d\n", words[i]);
    }
    return 0;
}
