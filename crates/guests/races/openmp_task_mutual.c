// Tasks exclude one another, in any order, and come behind the one that writes first; in the racy
// twin they name different addresses.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value, others[4];
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task depend(out : value)
        value = 1; // race: value
        for (int round = 0; round < 4; round++) {
            UNLESS_RACY(_Pragma("omp task depend(mutexinoutset : value)"))
            IF_RACY(_Pragma("omp task depend(mutexinoutset : others[round])"))
            value += round; // race: value
        }
#pragma omp task depend(in : value)
        others[0] = value; // race: value
    }
    return others[0] == 100;
}
