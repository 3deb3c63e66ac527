// Work that every thread of a region repeats, before a loop.
// planted: duplicated 0.6
// productive: 0.6
// diagnosis: do the same work outside worksharing constructs, 0.2
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(4)
    {
        if (planted)
            work(200);
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 4; i++)
            work(planted ? 100 : 150);
    }
    return 0;
}
