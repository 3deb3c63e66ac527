// A value that one thread broadcasts, to threads of which one comes late: the critical path
// leads through it.
// planted: desynchronisation 0.3
// productive: 0.7
// critical path: 0.5
// threads: 2
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(2)
    {
        int value = 0;
#pragma omp for schedule(dynamic, 1) nowait
        for (int i = 0; i < 2; i++)
            work(planted ? 100 + 300 * i : 250);
#pragma omp single copyprivate(value)
        value = 1;
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 2; i++)
            work(value ? 100 : 0);
    }
    return 0;
}
