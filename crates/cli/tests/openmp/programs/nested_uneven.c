// Of two inner regions beside each other one takes longer, and is uneven itself: what is saved in the
// other one, which is uneven as well, nobody would notice.
// planted: desynchronisation 1.36
// planted: serial_part 0.68
// productive: 1.16
// diagnosis: fork regions of their own that take unequally long
// diagnosis: in the region that thread 0 forks
// threads: 4
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        int is_long = omp_get_thread_num() == 0;
#pragma omp parallel for schedule(static, 1) num_threads(2)
        for (int i = 0; i < 2; i++)
            work(!planted ? 290 : is_long ? 200 + 600 * i : 40 + 80 * i);
    }
    return 0;
}
