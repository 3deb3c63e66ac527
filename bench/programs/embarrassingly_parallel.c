/* Gaussian pairs by the polar method, counted by annuli, as in the kernel EP of the NAS
 * benchmarks: blocks of random numbers, each from a seed that is computed by itself, and
 * next to no synchronisation. OpenMP, two threads. Argument: number of blocks. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS = 1 << 14, ANNULI = 10 };

static const uint64_t MULTIPLIER = 1220703125, MODULUS_MASK = ((uint64_t)1 << 46) - 1;

static double next(uint64_t *state)
{
    *state = *state * MULTIPLIER & MODULUS_MASK;
    return (double)*state * 0x1p-46;
}

/* The state after so many steps, by repeated squaring. */
static uint64_t skip(uint64_t state, uint64_t steps)
{
    for (uint64_t power = MULTIPLIER; steps; steps >>= 1) {
        if (steps & 1) state = state * power & MODULUS_MASK;
        power = power * power & MODULUS_MASK;
    }
    return state;
}

int main(int argc, char **argv)
{
    int blocks = argc > 1 ? atoi(argv[1]) : 10;
    long counts[ANNULI] = {0};
    double sum_x = 0, sum_y = 0;
#pragma omp parallel num_threads(2)
    {
        long own[ANNULI] = {0};
#pragma omp for reduction(+ : sum_x, sum_y) schedule(static)
        for (int block = 0; block < blocks; block++) {
            uint64_t state = skip(271828183, 2 * (uint64_t)PAIRS * block);
            for (int pair = 0; pair < PAIRS; pair++) {
                double x = 2 * next(&state) - 1, y = 2 * next(&state) - 1;
                double square = x * x + y * y;
                if (square > 1) continue;
                double factor = sqrt(-2 * log(square) / square);
                x *= factor, y *= factor;
                int annulus = (int)fmax(fabs(x), fabs(y));
                if (annulus < ANNULI) own[annulus]++;
                sum_x += x, sum_y += y;
            }
        }
#pragma omp critical
        for (int annulus = 0; annulus < ANNULI; annulus++)
            counts[annulus] += own[annulus];
    }
    printf("embarrassingly_parallel %d %.6e %.6e", blocks, sum_x, sum_y);
    for (int annulus = 0; annulus < ANNULI; annulus++)
        printf(" %ld", counts[annulus]);
    printf("\n");
    return 0;
}
