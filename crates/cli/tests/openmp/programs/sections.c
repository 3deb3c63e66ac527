// Two sections, one of which takes longer.
// planted: desynchronisation 0.6
// productive: 1.0
// diagnosis: does 80 % of the work of 2 threads; more sections of a more equal size
// threads: 2
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        work(planted ? 200 : 500);
#pragma omp section
        work(planted ? 800 : 500);
    }
    return 0;
}
