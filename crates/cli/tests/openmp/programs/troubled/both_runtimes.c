// Uses OpenMP itself, and a library that brings another runtime.
#include "../planted.h"

void other_region(void);

int main(void)
{
#pragma omp parallel num_threads(2)
    work(50);
    other_region();
    return 0;
}
