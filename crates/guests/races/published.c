// A value that a plain store with release publishes, by a variable whose type says that it is atomic.
#include "twin.h"
#include <stdatomic.h>
static _Atomic int ready;
static long value;
static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(value = 42;)
        atomic_store_explicit(&ready, 1, memory_order_release);
        IF_RACY(value = 42;) // race: value
    } else {
        while (!atomic_load_explicit(&ready, memory_order_acquire))
            sched_yield();
        volatile long seen = value; // race: value
        (void)seen;
    }
}
int main(void) {
    run_threads();
    return 0;
}
