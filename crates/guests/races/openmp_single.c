// What one thread writes is read behind the end of single; the racy twin does not wait there.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
long value, seen[2];
int main(void) {
#pragma omp parallel num_threads(2)
    {
        UNLESS_RACY(_Pragma("omp single"))
        IF_RACY(_Pragma("omp single nowait"))
        value = 1; // race: value
        seen[omp_get_thread_num()] = value; // race: value
        KEEP;
    }
    return seen[0] == 7;
}
