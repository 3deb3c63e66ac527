// Is killed by itself in a region, while one thread waits at a barrier.
#include "../planted.h"
#include <signal.h>

int main(void)
{
#pragma omp parallel num_threads(2)
    {
        int number = omp_get_thread_num();
        work(200 + number);
#pragma omp barrier
        work(number == 0 ? 300 : 0);
        if (number == 0)
            raise(SIGKILL);
#pragma omp barrier
        work(1);
    }
    return 0;
}
