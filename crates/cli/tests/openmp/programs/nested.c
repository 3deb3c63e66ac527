// Two inner regions beside each other, each with one thread that has more to do.
// planted: desynchronisation 0.6
// productive: 1.0
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
#pragma omp parallel for schedule(static, 1) num_threads(2)
        for (int i = 0; i < 2; i++)
            work(planted ? 100 + 300 * i : 250);
    }
    return 0;
}
