// Memory that is mapped twice, or whose mappings come and go, is one memory: what one mapping
// is written with, the other shows. With an argument threads pass a counter on through mappings
// of their own.
// flags: -O2 -pthread
// compare: status
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

#define PAGES 3
#define PAGE 4096

static int memory;
static long total;
static pthread_barrier_t start;

static volatile long *map(long pages, long first) {
    void *place = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, first * PAGE);
    EXPECT(place != MAP_FAILED);
    return place;
}

static void views_agree(void) {
    volatile long *all = map(PAGES, 0), *last = map(1, PAGES - 1);
    for (long turn = 0; turn < 1000; turn++) {
        all[(PAGES - 1) * PAGE / 8] = turn;
        EXPECT(last[0] == turn);
        last[1] = -turn;
        EXPECT(all[(PAGES - 1) * PAGE / 8 + 1] == -turn);
    }
    EXPECT(munmap((void *)all, PAGES * PAGE) == 0);
    volatile long *moved = mremap((void *)last, PAGE, PAGE, MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED && moved[0] == 999);
    volatile long *twice = mremap((void *)moved, 0, PAGE, MREMAP_MAYMOVE);
    EXPECT(twice != MAP_FAILED);
    twice[0] = 7;
    EXPECT(moved[0] == 7);
}

static void *increment(void *shared) {
    volatile long *counter = shared ? shared : map(1, 0);
    pthread_barrier_wait(&start);
    while (__atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST) < total) {
    }
    return NULL;
}

int main(int count, char **arguments) {
    memory = memfd_create("two_mappings", 0);
    EXPECT(memory >= 0 && ftruncate(memory, PAGES * PAGE) == 0);
    views_agree();
    if (count < 2) {
        return 0;
    }
    total = atol(arguments[1]);
    volatile long *counter = map(1, 0);
    void *shared = count > 2 ? NULL : (void *)counter;
    pthread_t threads[4];
    pthread_barrier_init(&start, NULL, 4);
    for (int number = 0; number < 4; number++) {
        EXPECT(pthread_create(&threads[number], NULL, increment, shared) == 0);
    }
    for (int number = 0; number < 4; number++) {
        EXPECT(pthread_join(threads[number], NULL) == 0);
    }
    EXPECT(*counter == total + 4);
}
