// The tasks of a loop have elements of their own; those of the racy twin share the first.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long values[64], sum;
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp taskloop grainsize(4)
        for (int number = 0; number < 64; number++) {
            values[UNLESS_RACY(number) IF_RACY(0)] += number; // race: values
            KEEP;
        }
        for (int number = 0; number < 64; number++)
            sum += values[number];
    }
    return sum == 7;
}
