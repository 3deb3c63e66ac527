// Two teams, one of which has more to do.
// planted: desynchronisation 0.3
// productive: 0.5
// threads: 2
// only: clang
// GNU's runtime lets one thread execute all teams.
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp teams distribute num_teams(2) thread_limit(1)
    for (int i = 0; i < 2; i++)
        work(!planted ? 250 : i ? 400 : 100);
    return 0;
}
