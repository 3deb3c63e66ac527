// Iterations follow each other in an ordered region; those of the racy twin do not.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value;
int main(void) {
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int number = 0; number < 16; number++) {
        UNLESS_RACY(_Pragma("omp ordered"))
        {
            KEEP;
            value += number; // race: value
            KEEP;
        }
    }
    return value == 7;
}
