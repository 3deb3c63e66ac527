// Cancels a loop and a region.
#include "../planted.h"

int main(void)
{
#pragma omp parallel num_threads(2)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 100; i++) {
            work(1);
            if (i > 2) {
#pragma omp cancel for
            }
        }
        if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
        }
        work(20);
#pragma omp cancellation point parallel
        work(5);
    }
    return 0;
}
