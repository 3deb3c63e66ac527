// Passes regions of two threads until somebody ends it, or for two minutes.
#include <omp.h>
#include <time.h>

int main(void)
{
    struct timespec pause = {0, 5000000};
    for (int round = 0; round < 24000; round++) {
#pragma omp parallel num_threads(2)
        nanosleep(&pause, NULL);
    }
    return 0;
}
