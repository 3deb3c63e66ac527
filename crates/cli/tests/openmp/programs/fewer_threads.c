// A region with half of the threads that another has.
// planted: serial_part 0.6
// productive: 1.4
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 4; i++)
        work(200);
#pragma omp parallel for num_threads(planted ? 2 : 4)
    for (int i = 0; i < 4; i++)
        work(150);
    return 0;
}
