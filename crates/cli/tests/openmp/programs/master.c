// A block of the first thread, for which the others wait at a barrier.
// planted: barrier 0.9
// productive: 0.3
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(4)
    {
        if (planted) {
#pragma omp master
            work(300);
        } else {
            work(omp_get_thread_num() < 0 ? 0 : 75);
        }
#pragma omp barrier
    }
    return 0;
}
