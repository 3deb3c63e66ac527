// A sum by reduction; the racy twin adds to the shared variable.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long sum;
int main(void) {
#pragma omp parallel for num_threads(2) UNLESS_RACY(reduction(+ : sum))
    for (int number = 0; number < 100; number++) {
        sum += number; // race: sum
        KEEP;
    }
    return sum == 0;
}
