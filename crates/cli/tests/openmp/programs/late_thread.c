// One thread comes late to a barrier, three times.
// planted: barrier 0.9
// productive: 1.2
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(4)
    {
        int number = omp_get_thread_num();
        for (int i = 0; i < 3; i++) {
            work(100 + planted * (number == 2 ? 75 : -25));
#pragma omp barrier
        }
    }
    return 0;
}
