// Each iteration waits for the one before it; those of the racy twin say that they need not.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long values[17];
int main(void) {
#pragma omp parallel for ordered(1) schedule(static, 1) num_threads(2)
    for (int number = 1; number < 17; number++) {
        UNLESS_RACY(_Pragma("omp ordered depend(sink : number - 1)"))
        KEEP;
        values[number] = values[number - 1] + number; // race: values
        KEEP;
        _Pragma("omp ordered depend(source)")
    }
    return values[16] == 7;
}
