// A sum by atomic updates, or by ordinary ones.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long sum;
int main(void) {
#pragma omp parallel num_threads(2)
    for (int number = 0; number < 100; number++) {
#ifndef RACY
#pragma omp atomic
#endif
        sum += number; // race: sum
        KEEP;
    }
    return sum == 0;
}
