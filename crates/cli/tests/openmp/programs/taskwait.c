// A thread waits for a task that another executes, in one way or the other.
// planted: tasks 0.4
// productive: 0.8
// threads: 2
#include "planted.h"

int main(int count, char **words)
{
    int planted = is_planted(count, words);
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        work(planted ? 300 : 200);
        work(planted ? 100 : 200);
#pragma omp taskwait
#pragma omp taskgroup
        {
#pragma omp task
            work(planted ? 300 : 200);
            work(planted ? 100 : 200);
        }
    }
    return 0;
}
