/* Gaussian deviates from batches of pseudo-random numbers, which OpenMP's threads share, in the
 * style in which kernels are usually written in C: a function for each number, a macro, and sqrt and
 * log in assignments. Argument: number of batches. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#define max(a, b) ((a) > (b) ? (a) : (b))
enum { BATCH = 1 << 12 };
static double next(double *seed)
{
    *seed = fmod(*seed * 16807.0, 2147483647.0);
    return *seed / 2147483647.0;
}
static void fill(double *seed, double *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = next(seed);
}
int main(int argc, char **argv)
{
    int batches = argc > 1 ? atoi(argv[1]) : 100;
    double q[10] = {0}, sx = 0, sy = 0;
#pragma omp parallel reduction(+ : sx, sy)
    {
        double x[2 * BATCH], qq[10] = {0};
#pragma omp for
        for (int k = 0; k < batches; k++) {
            double seed = 271828183.0 + k, t1, t2, t3, t4;
            int l;
            fill(&seed, x, 2 * BATCH);
            for (int i = 0; i < BATCH; i++) {
                double x1 = 2.0 * x[2 * i] - 1.0, x2 = 2.0 * x[2 * i + 1] - 1.0;
                t1 = x1 * x1 + x2 * x2;
                if (t1 <= 1.0) {
                    t2 = sqrt(-2.0 * log(t1) / t1);
                    t3 = x1 * t2;
                    t4 = x2 * t2;
                    l = max(fabs(t3), fabs(t4));
                    qq[l] += 1.0;
                    sx = sx + t3;
                    sy = sy + t4;
                }
            }
        }
#pragma omp critical
        for (int i = 0; i < 10; i++)
            q[i] += qq[i];
    }
    double sum = 0;
    for (int i = 0; i < 10; i++)
        sum += q[i];
    printf("%.9e %.9e %.0f\n", sx, sy, sum);
    return 0;
}
