// A loop of OpenMP: iterations of their own, or one variable for all.
// flags: -fopenmp
#include "twin.h"
#ifdef RACY
#define SHARING
#else
#define SHARING reduction(+ : sum)
#endif
long cells[64], sum;
static void work(long number) { (void)number; }
int main(void) {
    if (0)
        run_threads();
#pragma omp parallel num_threads(2)
    {
#pragma omp for SHARING
        for (int index = 0; index < 64; index++) {
            cells[index] = index;
            sum += index; // race: sum
            KEEP;
        }
    }
    return sum == 1;
}
