// OpenMP loops with every schedule, reductions, barriers, critical and atomic updates,
// ordered output and nested teams.
// flags: -O2 -fopenmp
// variants: clang
#include <omp.h>

#include "expect.h"

enum { N = 20000 };
static double values[N];

int main(void) {
    omp_set_num_threads(3);
    double sum = 0;
    long counted = 0, atomically = 0, critically = 0;
    for (int step = 0; step < 4; step++) {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < N; i++)
            values[i] = i % 11 + step;
#pragma omp parallel for schedule(dynamic, 50) reduction(+ : sum)
        for (int i = 0; i < N; i++)
            sum += values[i];
#pragma omp parallel for schedule(guided) reduction(max : counted)
        for (int i = 0; i < N; i++)
            counted = counted > i ? counted : i;
    }
#pragma omp parallel
    {
        for (int i = 0; i < 300; i++) {
#pragma omp atomic
            atomically++;
#pragma omp critical
            critically++;
        }
#pragma omp barrier
        EXPECT(critically == 900);
#pragma omp for ordered
        for (int i = 0; i < 5; i++) {
#pragma omp ordered
            printf("%d ", i);
        }
    }
    omp_set_max_active_levels(2);
    int inner = 0;
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(2) reduction(+ : inner)
    inner += 1;
    printf("%.0f %ld %ld %d\n", sum, counted, atomically, inner > 0);
    return 0;
}
