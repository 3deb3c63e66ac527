// A counter that is added to by locked instructions, and one beside it.
#include "twin.h"
long counters[2];
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        __atomic_fetch_add(&counters[0], 1, __ATOMIC_RELAXED);
        KEEP;
    }
    IF_RACY(counters[1]++;) // race: counters
}
int main(void) {
    run_threads();
    return counters[0] != THREADS * ROUNDS;
}
