// A library whose OpenMP is another runtime's than the program's.
#include "../planted.h"

void other_region(void)
{
#pragma omp parallel num_threads(2)
    work(50);
}
