/* A bounded queue without locks, for many producers and many consumers: every slot has a
 * turn number that says whether it may be filled or emptied. Two POSIX threads that both
 * put and take, so that neither has to wait long for the other.
 * Argument: items by each thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SLOTS = 1 << 15, THREADS = 2, BATCH = 8 };

struct slot {
    atomic_ulong turn;
    uint64_t item;
};

static struct slot slots[SLOTS];
static _Alignas(128) atomic_ulong next_put;
static _Alignas(128) atomic_ulong next_take;
static unsigned long items;

/* Waits for a slot's turn: awake for a moment, then asleep, because whoever has the turn
 * before may have lost its processor, and CPU time should not count the waiting. */
static void await_turn(struct slot *slot, unsigned long turn)
{
    for (int attempt = 0;
         atomic_load_explicit(&slot->turn, memory_order_acquire) != turn; attempt++)
        if (attempt >= 2000)
            nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static void put(uint64_t item)
{
    unsigned long ticket = atomic_fetch_add(&next_put, 1);
    struct slot *slot = &slots[ticket % SLOTS];
    await_turn(slot, ticket / SLOTS * 2);
    slot->item = item;
    atomic_store_explicit(&slot->turn, ticket / SLOTS * 2 + 1, memory_order_release);
}

static uint64_t take(void)
{
    unsigned long ticket = atomic_fetch_add(&next_take, 1);
    struct slot *slot = &slots[ticket % SLOTS];
    await_turn(slot, ticket / SLOTS * 2 + 1);
    uint64_t item = slot->item;
    atomic_store_explicit(&slot->turn, ticket / SLOTS * 2 + 2, memory_order_release);
    return item;
}

/* Every thread takes as many items as it put, so that no ticket waits for ever. */
static void *work(void *argument)
{
    uint64_t first = (uintptr_t)argument * items + 1, sum = 0;
    for (unsigned long done = 0; done < items; done += BATCH) {
        unsigned long batch = items - done < BATCH ? items - done : BATCH;
        for (unsigned long i = 0; i < batch; i++)
            put(first + done + i);
        for (unsigned long i = 0; i < batch; i++) {
            uint64_t item = take();
            sum += item * item;
        }
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    items = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (uintptr_t)part;
    }
    printf("lockfree_queue %lu %016llx\n", items, (unsigned long long)sum);
    return 0;
}
