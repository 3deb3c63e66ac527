// Two loops whose inequalities make up for each other, because the first does not wait; then
// the same with waiting.
// planted: desynchronisation 0.6
// productive: 2.0
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int step = is_planted(count, words) ? 50 : 0;
#pragma omp parallel num_threads(4)
    {
#pragma omp for schedule(static, 1) nowait
        for (int i = 0; i < 4; i++)
            work(50 + i * 50);
#pragma omp for schedule(static, 1)
        for (int i = 0; i < 4; i++)
            work(200 - i * 50);
#pragma omp for schedule(static, 1)
        for (int i = 0; i < 4; i++)
            work(step ? 50 + i * step : 125);
#pragma omp for schedule(static, 1)
        for (int i = 0; i < 4; i++)
            work(step ? 200 - i * step : 125);
    }
    return 0;
}
