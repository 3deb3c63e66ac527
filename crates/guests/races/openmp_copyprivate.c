// One thread's value is copied to all; in the racy twin it is left where nobody waits for it.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
static long given, seen[2];
int main(void) {
#pragma omp parallel num_threads(2)
    {
        long value = 0;
#ifdef RACY
#pragma omp single nowait
        given = 1; // race: given
        value = given; // race: given
#else
#pragma omp single copyprivate(value)
        {
            given = 1;
            value = given;
        }
        value = given;
#endif
        seen[omp_get_thread_num()] = value;
    }
    return seen[0] == 7;
}
