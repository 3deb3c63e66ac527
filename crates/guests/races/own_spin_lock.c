// A spin lock of the program's own: taken with a locked instruction, released by a plain store.
#include "twin.h"
static int lock;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) sched_yield();)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);)
    }
}
int main(void) {
    run_threads();
    return counter == 0 || lock;
}
