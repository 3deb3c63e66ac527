// The same with a static schedule, which gcc divides in the program itself, inside a region
// with another loop before it.
// planted: desynchronisation 0.6
// productive: 1.4
// diagnosis gcc: the runtime is not told how many iterations there are
// diagnosis clang: no other schedule is sure to save much
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int step = is_planted(count, words) ? 100 : 0;
#pragma omp parallel num_threads(4)
    {
#pragma omp for
        for (int i = 0; i < 8; i++)
            work(50);
#pragma omp for schedule(static, 1)
        for (int i = 0; i < 4; i++)
            work(step ? 100 + i * step : 250);
    }
    return 0;
}
