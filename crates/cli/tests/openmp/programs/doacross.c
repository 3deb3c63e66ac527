// Iterations that wait for those before them.
// planted: ordered 0.6
// planted: desynchronisation 0.6
// productive: 0.4
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
    if (planted) {
#pragma omp parallel for schedule(static, 1) ordered(1) num_threads(4)
        for (int i = 0; i < 4; i++) {
#pragma omp ordered depend(sink : i - 1)
            work(100);
#pragma omp ordered depend(source)
        }
    } else {
#pragma omp parallel for schedule(static, 1) num_threads(4)
        for (int i = 0; i < 4; i++)
            work(100);
    }
    return 0;
}
