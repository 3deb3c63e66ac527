// Many threads read the same table while now and then one writes it: each read sees the
// old or the new value, and the new one after it was announced.
// flags: -O2 -pthread
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "expect.h"

enum { READERS = 4, VERSIONS = 30, WORDS = 256 };

static atomic_long table[WORDS];
static atomic_long announced;

static void *read_table(void *unused) {
    long version = 0;
    while (version < VERSIONS) {
        version = atomic_load(&announced);
        for (int i = 0; i < WORDS; i++)
            EXPECT(atomic_load_explicit(&table[i], memory_order_relaxed) >= version);
        sched_yield();
    }
    return unused;
}

int main(void) {
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        EXPECT(pthread_create(&readers[i], NULL, read_table, NULL) == 0);
    for (long version = 1; version <= VERSIONS; version++) {
        for (int i = 0; i < WORDS; i++)
            atomic_store_explicit(&table[i], version, memory_order_relaxed);
        atomic_store(&announced, version);
        usleep(500);
    }
    for (int i = 0; i < READERS; i++)
        EXPECT(pthread_join(readers[i], NULL) == 0);
    puts("no reader saw the past");
    return 0;
}
