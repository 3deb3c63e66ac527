// One task reads what another has written; the racy twin's reader does not depend on it.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value, seen;
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task depend(out : value)
        value = 1; // race: value
        UNLESS_RACY(_Pragma("omp task depend(in : value)"))
        IF_RACY(_Pragma("omp task depend(in : seen)"))
        seen = value; // race: value
    }
    return seen == 7;
}
