// Sections with private variables write each what is theirs; those of the racy twin the same.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long values[3];
int main(void) {
    long number;
#pragma omp parallel sections num_threads(2) private(number)
    {
#pragma omp section
        {
            number = 1;
            values[0] = number; // race: values
        }
#pragma omp section
        {
            number = 2;
            values[UNLESS_RACY(1) IF_RACY(0)] = number; // race: values
        }
#pragma omp section
        {
            number = 3;
            values[UNLESS_RACY(2) IF_RACY(0)] = number; // race: values
        }
    }
    return values[0] == 7;
}
