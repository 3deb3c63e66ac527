// A sequence lock: readers retry until they saw no write, and never see half of one.
// flags: -O2 -pthread
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "expect.h"

enum { WRITES = 2000, WORDS = 16, READERS = 3 };

static atomic_uint sequence;
static atomic_long words[WORDS];

static void *read_all(void *unused) {
    long value = 0, previous = 0;
    while (value < WRITES) {
        unsigned before = atomic_load_explicit(&sequence, memory_order_acquire);
        long seen[WORDS];
        for (int i = 0; i < WORDS; i++)
            seen[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 || atomic_load_explicit(&sequence, memory_order_relaxed) != before) {
            sched_yield();
            continue;
        }
        value = seen[0];
        EXPECT(value >= previous);
        previous = value;
        for (int i = 0; i < WORDS; i++)
            EXPECT(seen[i] == value * (i + 1));
        if (value < WRITES)
            sched_yield();
    }
    return unused;
}

int main(void) {
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        EXPECT(pthread_create(&readers[i], NULL, read_all, NULL) == 0);
    for (long value = 1; value <= WRITES; value++) {
        atomic_fetch_add_explicit(&sequence, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        for (int i = 0; i < WORDS; i++)
            atomic_store_explicit(&words[i], value * (i + 1), memory_order_relaxed);
        atomic_fetch_add_explicit(&sequence, 1, memory_order_release);
    }
    for (int i = 0; i < READERS; i++)
        EXPECT(pthread_join(readers[i], NULL) == 0);
    puts("no torn read");
    return 0;
}
