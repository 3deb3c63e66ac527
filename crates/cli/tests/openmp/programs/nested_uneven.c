// Of two inner regions beside each other one takes longer, and is uneven itself: what is saved in the
// other one, which is uneven as well, nobody would notice.
// planted: desynchronisation 0.64
// planted: serial_part 0.26
// productive: 0.7
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
            work(!planted ? 175 : is_long ? 100 + 300 * i : 60 + 80 * i);
    }
    return 0;
}
