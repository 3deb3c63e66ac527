// One thread creates a task for each, of which one is long.
// planted: desynchronisation 0.9
// productive: 0.8
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(4)
#pragma omp single
    for (int i = 0; i < 4; i++) {
#pragma omp task firstprivate(i)
        work(!planted ? 200 : i == 1 ? 425 : 125);
    }
    return 0;
}
