// Tasks read beside one another between two that write; in the racy twin the last one waits for one
// of the readers only.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value, other, sums[8];
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int round = 0; round < 20; round++) {
#pragma omp task depend(inout : value)
        value = round; // race: value
        for (int reader = 0; reader < 8; reader++) {
            UNLESS_RACY(_Pragma("omp task depend(in : value) firstprivate(reader)"))
            IF_RACY(_Pragma("omp task depend(in : other) firstprivate(reader)"))
            {
                long read = value; // race: value
                KEEP;
                sums[reader] = read; // race: sums
            }
        }
#pragma omp taskwait depend(in : value)
    }
    return sums[0] == 100;
}
