// Threads queue for a critical block. Each leaves it later than the one before, and the
// region's end makes up for it.
// planted: critical 0.6
// planted: desynchronisation 0.6
// productive: 0.4
// diagnosis: in all (4 times
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(4)
    {
        if (planted) {
#pragma omp critical(queue)
            work(100);
        } else {
            work(omp_get_thread_num() < 0 ? 0 : 100);
        }
    }
    return 0;
}
