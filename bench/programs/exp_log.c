/* exp and log in a loop, compiled to SSE only: the program itself never touches the upper
 * halves of the vector registers. A translator that leaves them dirty makes every SSE
 * instruction depend on the old upper half, or pay for a state transition, and shows here
 * first. Arguments: number of repetitions; then "dirty" to dirty them on purpose, which
 * tells what this machine charges for it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 4096 };

static double points[POINTS];

int main(int argc, char **argv)
{
    int repetitions = argc > 1 ? atoi(argv[1]) : 10;
    int dirty = argc > 2 && strcmp(argv[2], "dirty") == 0;
    for (int i = 0; i < POINTS; i++)
        points[i] = 0.001 * (i + 1);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int i = 0; i < POINTS; i++) {
            if (dirty)
                __asm__ volatile("vpcmpeqb %%ymm15, %%ymm15, %%ymm15" ::: "xmm15");
            points[i] = log(1.0 + exp(points[i] * 0.75)) + exp(-points[i]) * 0.125;
        }
    double sum = 0;
    for (int i = 0; i < POINTS; i++)
        sum += points[i];
    printf("exp_log %d %.12e\n", repetitions, sum);
    return 0;
}
