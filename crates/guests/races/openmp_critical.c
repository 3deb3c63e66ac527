// A counter in a critical section of OpenMP.
// flags: -fopenmp
#include "twin.h"
long counter;
static void work(long number) { (void)number; }
int main(void) {
    if (0)
        run_threads();
#pragma omp parallel num_threads(2)
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(_Pragma("omp critical"))
        counter++; // race: counter
        KEEP;
    }
    return counter == 0;
}
