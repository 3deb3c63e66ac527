// Cancels a loop.
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
    }
    return 0;
}
