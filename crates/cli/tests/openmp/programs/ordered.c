// A chain of ordered blocks.
// planted: ordered 0.6
// planted: desynchronisation 0.6
// productive: 0.4
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel for schedule(static, 1) ordered num_threads(4)
    for (int i = 0; i < 4; i++) {
        if (planted) {
#pragma omp ordered
            work(100);
        } else {
            work(100);
        }
    }
    return 0;
}
