// Two threads increment one counter, each through a mapping of its own, so that nothing but the
// memory itself orders what they do.
// flags: -O2 -pthread
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "litmus.h"

enum { TURNS = 20000, SIZE = 1 << 16 };

static struct meeting start = {.threads = 2};
static _Atomic uint64_t *counters[2];

static void *count(void *argument) {
    int number = (int)(intptr_t)argument;
    meet(&start);
    uint64_t last = 0;
    for (int i = 0; i < TURNS; i++) {
        uint64_t now = atomic_fetch_add(counters[number], 1) + 1;
        EXPECT(now > last);
        last = now;
    }
    return NULL;
}

int main(void) {
    int memory = memfd_create("memory", 0);
    EXPECT(memory >= 0 && ftruncate(memory, SIZE) == 0);
    for (int i = 0; i < 2; i++) {
        void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        EXPECT(at != MAP_FAILED);
        counters[i] = at;
    }
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, count, (void *)1) == 0);
    count(NULL);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(*counters[0] == 2 * TURNS && *counters[1] == 2 * TURNS);
    puts("counted");
    return 0;
}
