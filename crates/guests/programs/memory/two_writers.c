// Several threads write at once to a page whose code has just run, as the threads of a
// just-in-time compiler do.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

#define WRITERS 2
#define ROUNDS 150

static unsigned char *page;
static atomic_int round_number, finished;

static void *write_words(void *argument) {
    volatile long *word = (volatile long *)(page + 2048) + (long)argument;
    for (int round = 1; round <= ROUNDS; round++) {
        while (atomic_load(&round_number) < round) {
        }
        *word += round;
        atomic_fetch_add(&finished, 1);
    }
    return NULL;
}

int main(void) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED);
    // mov $7, %eax; ret
    memcpy(page, (unsigned char[]){0xb8, 7, 0, 0, 0, 0xc3}, 6);
    int (*volatile call)(void) = (int (*)(void))page;
    pthread_t threads[WRITERS];
    for (long i = 0; i < WRITERS; i++) {
        EXPECT(pthread_create(&threads[i], NULL, write_words, (void *)i) == 0);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        EXPECT(call() == 7);
        atomic_store(&round_number, round);
        while (atomic_load(&finished) < round * WRITERS) {
            sched_yield();
        }
    }
    for (long i = 0; i < WRITERS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
        EXPECT(((long *)(page + 2048))[i] == ROUNDS * (ROUNDS + 1) / 2);
    }
    puts("all written");
    return 0;
}
