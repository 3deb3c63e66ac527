// Intervals that the program tells of itself: two of one name, one within it, and threads of a region.
#include "unspool.h"
#include <omp.h>
#include <stdio.h>

static volatile long spent;

static void work(int times)
{
    for (int i = 0; i < times * 1000; i++)
        spent++;
}

int main(void)
{
    for (int step = 0; step < 2; step++) {
        unspool_begin_interval("step");
        work(10);
        unspool_begin_interval("inner");
#pragma omp parallel num_threads(2)
        work(10);
        unspool_end_interval();
        unspool_end_interval();
    }
    unspool_begin_interval("alone");
    work(10);
    unspool_end_interval();
    puts("done");
    return 0;
}
