// Two loops of OpenMP, the second of which reads what other threads wrote in the first.
// flags: -fopenmp
#include "twin.h"
#ifdef RACY
#define WAITING nowait
#else
#define WAITING
#endif
long cells[64], sums[64];
static void work(long number) { (void)number; }
int main(void) {
    if (0)
        run_threads();
#pragma omp parallel num_threads(2)
    {
#pragma omp for schedule(static) WAITING
        for (int index = 0; index < 64; index++) {
            cells[index] = index; // race: cells
            KEEP;
        }
#pragma omp for schedule(static)
        for (int index = 0; index < 64; index++) {
            sums[index] = cells[63 - index]; // race: cells
            KEEP;
        }
    }
    return sums[0] == 1;
}
