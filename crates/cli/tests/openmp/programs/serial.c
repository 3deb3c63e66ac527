// A serial part before a parallel region.
// planted: serial_part 0.9
// productive: 1.1
// diagnosis: are outside parallel regions, where one thread works and 3 wait
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
    if (planted)
        work(300);
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 4; i++)
        work(planted ? 200 : 275);
    return 0;
}
