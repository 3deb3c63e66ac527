// A flag that is stored and loaded in a loop, atomic or not.
#include "twin.h"
#include <stdatomic.h>
UNLESS_RACY(_Atomic) IF_RACY(volatile) int done;
static void work(long number) {
    if (number == 0) {
        usleep(2000);
        done = 1; // race: done
    } else {
        while (!done) // race: done
            sched_yield();
    }
}
int main(void) {
    run_threads();
    return !done;
}
