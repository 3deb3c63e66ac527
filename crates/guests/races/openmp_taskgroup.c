// A group of tasks waits for what its tasks have made, too; in the racy twin only the outer one is
// waited for.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
long value, seen;
static void make_tasks(void) {
#pragma omp task
    {
#pragma omp task
        value = 1; // race: value
    }
}
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#ifdef RACY
        make_tasks();
#pragma omp taskwait
#else
#pragma omp taskgroup
        make_tasks();
#endif
        seen = value; // race: value
    }
    return seen == 7;
}
