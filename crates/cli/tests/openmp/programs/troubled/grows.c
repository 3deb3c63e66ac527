// The number of threads changes from region to region: 2, 4, 1 and 3.
#include "../planted.h"

int main(void)
{
    static const int numbers[] = {2, 4, 1, 3};
    for (int region = 0; region < 4; region++) {
        omp_set_num_threads(numbers[region]);
#pragma omp parallel
        work(50);
    }
    return 0;
}
