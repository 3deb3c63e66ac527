// Threads queue for a lock twice: a plain one, then a nested one taken twice.
// planted: lock 0.9
// planted: barrier 0.9
// productive: 0.6
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
    omp_lock_t plain;
    omp_nest_lock_t nested;
    omp_init_lock(&plain);
    omp_init_nest_lock(&nested);
#pragma omp parallel num_threads(4)
    {
        int own = omp_get_thread_num() >= 0;
        if (planted)
            omp_set_lock(&plain);
        work(own * 100);
        if (planted)
            omp_unset_lock(&plain);
#pragma omp barrier
        if (planted) {
            omp_set_nest_lock(&nested);
            omp_set_nest_lock(&nested);
        }
        work(50);
        if (planted) {
            omp_unset_nest_lock(&nested);
            omp_unset_nest_lock(&nested);
        }
#pragma omp barrier
    }
    return 0;
}
