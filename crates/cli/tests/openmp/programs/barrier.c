// Threads that divide work by their numbers, unequally, meet at a barrier.
// planted: barrier 0.6
// productive: 1.0
// diagnosis: at the barrier at barrier
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int step = is_planted(count, words) ? 50 : 0;
#pragma omp parallel num_threads(4)
    {
        int number = omp_get_thread_num();
        work(250 + step * (2 * number - 3));
#pragma omp barrier
    }
    return 0;
}
