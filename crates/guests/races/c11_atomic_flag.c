// A spin lock made of C11's atomic_flag.
#include "twin.h"
#include <stdatomic.h>
static atomic_flag held = ATOMIC_FLAG_INIT;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(while (atomic_flag_test_and_set_explicit(&held, memory_order_acquire)) sched_yield();)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(atomic_flag_clear_explicit(&held, memory_order_release);)
    }
}
int main(void) {
    (void)held;
    run_threads();
    return counter == 0;
}
