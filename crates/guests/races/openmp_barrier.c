// Threads of OpenMP read what others wrote before a barrier.
// flags: -fopenmp
#include "twin.h"
#include <omp.h>
long cells[2], sums[2];
static void work(long number) { (void)number; }
int main(void) {
    if (0)
        run_threads();
#pragma omp parallel num_threads(2)
    {
        int number = omp_get_thread_num();
        cells[number] = number; // race: cells
        KEEP;
        UNLESS_RACY(_Pragma("omp barrier"))
        sums[number] = cells[1 - number]; // race: cells
        KEEP;
    }
    return sums[0] == 3;
}
