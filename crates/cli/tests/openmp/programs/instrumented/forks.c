// A child that ends after its parent has: the parent's traces are the parent's. Each process
// comes to a barrier twice, in a region of its own before the fork or after it.
// counts: 4 barrier
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void region(void)
{
#pragma omp parallel num_threads(1)
    {
#pragma omp barrier
    }
}

int main(void)
{
    region();
    region();
    fflush(stdout);
    if (fork() == 0) {
        usleep(200000);
        exit(0);
    }
    region();
    region();
    return 0;
}
