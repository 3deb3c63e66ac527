// A loop whose first iterations take longest, handed out in pieces that are too large; then in
// those that the diagnosis names.
// planted: desynchronisation 0.72
// productive: 0.56
// diagnosis: does 57 % of the work of 4 threads; schedule(dynamic,1) may save about 0.1
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    omp_set_schedule(omp_sched_dynamic, is_planted(count, words) ? 8 : 1);
#pragma omp parallel for schedule(runtime) num_threads(4)
    for (int i = 0; i < 32; i++)
        work(i < 8 ? 40 : 10);
    return 0;
}
