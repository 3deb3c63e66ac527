// Twelve pieces of work on any number of threads, and as many turns in a critical block.
#include "../planted.h"

int main(void)
{
#pragma omp parallel for schedule(static, 1)
    for (int i = 0; i < 12; i++) {
        work(50);
#pragma omp critical
        work(10);
    }
    return 0;
}
