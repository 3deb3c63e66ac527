// A loop whose last iteration takes long, and whose iterations are handed out one by one already.
// planted: desynchronisation 0.4
// productive: 0.6
// diagnosis: does 83 % of the work of 2 threads; it is handed out in pieces of 1 as threads need them already
// threads: 2
#include "planted.h"

int main(int count, char **words)
{
    int is_uneven = is_planted(count, words);
#pragma omp parallel for schedule(dynamic, 1) num_threads(2)
    for (int i = 0; i < 22; i++)
        work(!is_uneven ? 27 : i == 21 ? 400 : i == 0 ? 0 : 10);
    return 0;
}
