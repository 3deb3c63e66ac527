// One memory at several addresses: threads see through one mapping what others write through
// another, with plain loads and stores, while mappings of it come and go.
// flags: -O2 -pthread
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "litmus.h"

enum { ROUNDS = 400, SIZE = 1 << 16, WORDS = 64, VIEWS = 3 };

// Where the memory is now, by view. A thread holds a view in use while it looks through it.
static _Atomic(uint64_t *) views[VIEWS];
static atomic_int in_use[VIEWS];
static atomic_int ended;
static int memory;

// The first word counts the rounds; thread 0 and 1 take turns. Others are what the round wrote.
static uint64_t *take(int view) {
    for (;;) {
        atomic_fetch_add(&in_use[view], 1);
        uint64_t *at = atomic_load(&views[view]);
        if (at != NULL)
            return at;
        atomic_fetch_sub(&in_use[view], 1);
        sched_yield();
    }
}

static void give_back(int view) { atomic_fetch_sub(&in_use[view], 1); }

static void *take_turns(void *argument) {
    int number = (int)(intptr_t)argument;
    for (uint64_t round = number; round < ROUNDS; round += 2) {
        int view = (round / 2 + number) % VIEWS;
        volatile uint64_t *at = take(view);
        while (atomic_load_explicit((_Atomic uint64_t *)at, memory_order_acquire) != round) {
            give_back(view);
            sched_yield();
            at = take(view);
        }
        for (int i = 1; i < WORDS; i++) {
            EXPECT(round == 0 || at[i * 8] == (round - 1) * WORDS + i);
            at[i * 8] = round * WORDS + i;
        }
        atomic_store_explicit((_Atomic uint64_t *)at, round + 1, memory_order_release);
        give_back(view);
    }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static uint64_t *map(int protection) {
    void *at = mmap(NULL, SIZE, protection, MAP_SHARED, memory, 0);
    EXPECT(at != MAP_FAILED);
    return at;
}

// Takes a view away when nobody looks through it, and puts another mapping in its place.
static void replace(int view, unsigned turn) {
    uint64_t *old = atomic_exchange(&views[view], NULL);
    while (atomic_load(&in_use[view]) != 0)
        sched_yield();
    uint64_t *new;
    switch (turn % 3) {
    case 0:
        EXPECT(munmap(old, SIZE) == 0);
        new = map(PROT_READ | PROT_WRITE);
        break;
    case 1:
        new = map(PROT_READ);
        EXPECT(mprotect(new, SIZE, PROT_READ | PROT_WRITE) == 0);
        EXPECT(munmap(old, SIZE) == 0);
        break;
    default:
        new = mremap(old, 0, SIZE, MREMAP_MAYMOVE);
        EXPECT(new != MAP_FAILED);
        EXPECT(munmap(old, SIZE) == 0);
    }
    atomic_store(&views[view], new);
}

int main(void) {
    memory = memfd_create("memory", 0);
    EXPECT(memory >= 0 && ftruncate(memory, SIZE) == 0);
    for (int i = 0; i < VIEWS; i++)
        atomic_store(&views[i], map(PROT_READ | PROT_WRITE));
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, take_turns, (void *)i) == 0);
    for (unsigned turn = 0; turn < 12; turn++) {
        replace(turn % VIEWS, turn / VIEWS);
        usleep(500);
    }
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(atomic_load(&ended) == 2 && *views[0] == ROUNDS);
    puts("all rounds seen");
    return 0;
}
