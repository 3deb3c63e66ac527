// Tasks count in a critical section; those of the racy twin without one.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value;
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int round = 0; round < 10; round++) {
#pragma omp task
        {
            UNLESS_RACY(_Pragma("omp critical"))
            value++; // race: value
        }
    }
    return value == 7;
}
