// A lock that a compare-and-swap takes and another releases.
#include "twin.h"
static int lock;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        int is_free = 0;
        while (!__atomic_compare_exchange_n(&lock, &is_free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            is_free = 0;
            IF_RACY(break;)
            sched_yield();
        }
        counter++; // race: counter
        KEEP;
        __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
        IF_RACY(counter++;) // race: counter
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
