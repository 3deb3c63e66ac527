// Each thread has its own, or all have one.
#include "twin.h"
UNLESS_RACY(static __thread) long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        counter++; // race: counter
        KEEP;
    }
}
int main(void) {
    run_threads();
    return 0;
}
