// A loop of unequal iterations, one for each thread.
// planted: desynchronisation 0.6
// productive: 1.0
// diagnosis: does 40 % of the work of 4 threads; no other schedule is sure to save much
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int step = is_planted(count, words) ? 100 : 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(4)
    for (int i = 0; i < 4; i++)
        work(step ? 100 + i * step : 250);
    return 0;
}
