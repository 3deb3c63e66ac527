// A loop of short iterations, by the schedule of OMP_SCHEDULE: as many as the first word says. It
// says how much processor time all threads took.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **words)
{
    long iterations = count > 1 ? atol(words[1]) : 1000;
    double sum = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : sum)
    for (long i = 0; i < iterations; i++)
        sum += i % 7;
    fprintf(stderr, "sum %g took %.6f\n", sum, (double)clock() / CLOCKS_PER_SEC);
    return 0;
}
