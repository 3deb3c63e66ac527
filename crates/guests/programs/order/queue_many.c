// A bounded lock-free queue (a sequence number in each cell), several producers and several
// consumers: every item arrives exactly once, and those of one producer in their order.
// flags: -O2 -pthread
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "expect.h"

enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS = 2000, CELLS = 64 };

static struct cell {
    _Alignas(64) atomic_size_t sequence;
    int value;
} cells[CELLS];
static _Alignas(64) atomic_size_t head, tail;
static atomic_int taken;
static atomic_char seen[PRODUCERS * ITEMS];

static int push(int value) {
    size_t position = atomic_load_explicit(&tail, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &cells[position % CELLS];
        size_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        if (sequence == position) {
            if (atomic_compare_exchange_weak(&tail, &position, position + 1)) {
                cell->value = value;
                atomic_store_explicit(&cell->sequence, position + 1, memory_order_release);
                return 1;
            }
        } else if ((ptrdiff_t)(sequence - position) < 0) {
            return 0;
        } else {
            position = atomic_load_explicit(&tail, memory_order_relaxed);
        }
    }
}

static int pop(int *value) {
    size_t position = atomic_load_explicit(&head, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &cells[position % CELLS];
        size_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        if (sequence == position + 1) {
            if (atomic_compare_exchange_weak(&head, &position, position + 1)) {
                *value = cell->value;
                atomic_store_explicit(&cell->sequence, position + CELLS, memory_order_release);
                return 1;
            }
        } else if ((ptrdiff_t)(sequence - position - 1) < 0) {
            return 0;
        } else {
            position = atomic_load_explicit(&head, memory_order_relaxed);
        }
    }
}

static void *produce(void *argument) {
    int first = (int)(size_t)argument * ITEMS;
    for (int i = 0; i < ITEMS; i++)
        while (!push(first + i))
            sched_yield();
    return NULL;
}

static void *consume(void *unused) {
    int last[PRODUCERS], value;
    memset(last, -1, sizeof last);
    while (atomic_load(&taken) < PRODUCERS * ITEMS) {
        if (!pop(&value)) {
            sched_yield();
            continue;
        }
        EXPECT(value >= 0 && value < PRODUCERS * ITEMS);
        EXPECT(value > last[value / ITEMS]);
        last[value / ITEMS] = value;
        EXPECT(atomic_exchange(&seen[value], 1) == 0);
        atomic_fetch_add(&taken, 1);
    }
    return unused;
}

int main(void) {
    pthread_t threads[PRODUCERS + CONSUMERS];
    for (size_t i = 0; i < CELLS; i++)
        atomic_init(&cells[i].sequence, i);
    for (size_t i = 0; i < PRODUCERS + CONSUMERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, (void *)i) == 0);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%d items went through\n", atomic_load(&taken));
    return 0;
}
