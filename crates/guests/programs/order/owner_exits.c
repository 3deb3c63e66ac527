// A thread writes many lines and ends; others then read and write them, and so on for
// generations of threads.
// flags: -O2 -pthread
#include <pthread.h>

#include "expect.h"

enum { GENERATIONS = 60, WORDS = 512 };

static long words[WORDS];

static void *add_one(void *argument) {
    long generation = (long)argument;
    for (int i = 0; i < WORDS; i++) {
        EXPECT(words[i] == generation);
        words[i]++;
    }
    return NULL;
}

int main(void) {
    for (long generation = 0; generation < GENERATIONS; generation++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, add_one, (void *)generation) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    printf("%ld generations\n", words[0]);
    return 0;
}
