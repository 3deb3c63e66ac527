// A task's maker waits for it before it looks; the racy twin looks first.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value, seen;
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        value = 1; // race: value
        UNLESS_RACY(_Pragma("omp taskwait"))
        seen = value; // race: value
    }
    return seen == 7;
}
