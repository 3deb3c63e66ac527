// A block that one thread executes while the others wait.
// planted: desynchronisation 0.9
// productive: 0.7
// diagnosis: one thread executes the single block at single.c
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(4)
    {
        if (planted) {
#pragma omp single
            work(300);
        }
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 4; i++)
            work(planted ? 100 : 175);
    }
    return 0;
}
