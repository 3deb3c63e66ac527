// Two loops over the same array; the racy twin's second loop does not wait for the first.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long values[64], sums[64];
int main(void) {
#pragma omp parallel num_threads(2)
    {
        UNLESS_RACY(_Pragma("omp for schedule(static)"))
        IF_RACY(_Pragma("omp for schedule(static) nowait"))
        for (int number = 0; number < 64; number++)
            values[number] = number; // race: values
#pragma omp for schedule(static)
        for (int number = 0; number < 64; number++)
            sums[number] = values[63 - number]; // race: values
    }
    return sums[0] == 7;
}
