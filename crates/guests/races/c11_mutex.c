// A counter that a mutex of C11 guards.
#include "twin.h"
#include <threads.h>
static mtx_t mutex;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(mtx_lock(&mutex);)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(mtx_unlock(&mutex);)
    }
}
int main(void) {
    mtx_init(&mutex, mtx_plain);
    run_threads();
    return counter == 0;
}
