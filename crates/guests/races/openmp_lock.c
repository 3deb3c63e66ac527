// A counter that a lock of OpenMP guards.
// flags: -fopenmp
#include "twin.h"
#include <omp.h>
static omp_lock_t lock;
long counter;
static void work(long number) { (void)number; }
int main(void) {
    if (0)
        run_threads();
    omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(omp_set_lock(&lock);)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(omp_unset_lock(&lock);)
    }
    return counter == 0;
}
