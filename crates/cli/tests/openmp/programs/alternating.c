// In each passage one thread has more to do than the other, but not always the same.
// planted: desynchronisation 0.4
// productive: 0.8
// diagnosis: which thread comes last changes (of 4 passages, thread 0 in 2, thread 1 in 2)
// threads: 2
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(2)
    for (int passage = 0; passage < 4; passage++) {
#pragma omp for schedule(static, 1)
        for (int i = 0; i < 2; i++)
            work(!planted ? 100 : i == passage % 2 ? 150 : 50);
    }
    return 0;
}
