/* Every way in which OpenMP's threads meet, with a few microseconds of work between: short
 * regions, loops of every schedule, barriers, criticals, locks, ordered blocks, single
 * blocks and tasks. Two threads. Argument: number of rounds. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Some microseconds of integer arithmetic. */
static uint64_t mix(uint64_t seed)
{
    for (int i = 0; i < 1500; i++)
        seed = seed * 6364136223846793005u + 1442695040888963407u, seed ^= seed >> 29;
    return seed;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    uint64_t sums[9] = {0};
    omp_lock_t lock;
    omp_init_lock(&lock);
    for (int round = 0; round < rounds; round++) {
        uint64_t sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum) schedule(static)
        for (int i = 0; i < 4; i++)
            sum += mix(round + i);
        sums[0] += sum;
#pragma omp parallel num_threads(2)
        {
            uint64_t own = mix(omp_get_thread_num());
#pragma omp for schedule(dynamic, 1) nowait
            for (int i = 0; i < 8; i++)
                own += mix(i);
#pragma omp for schedule(guided)
            for (int i = 0; i < 8; i++)
                own += mix(i + round);
#pragma omp barrier
            own += mix(own * 0);
#pragma omp critical
            sums[1] += own * 0 + 1;
            own = mix(omp_get_thread_num());
            omp_set_lock(&lock);
            sums[2] += own;
            omp_unset_lock(&lock);
#pragma omp for ordered schedule(static, 1)
            for (int i = 0; i < 4; i++) {
                uint64_t value = mix(i);
#pragma omp ordered
                sums[3] = sums[3] * 31 + value;
            }
#pragma omp single
            sums[4] += mix(round);
#pragma omp single
            for (int i = 0; i < 4; i++) {
#pragma omp task firstprivate(i)
                {
                    uint64_t value = mix(i);
#pragma omp atomic
                    sums[5] += value;
                }
            }
        }
    }
    omp_destroy_lock(&lock);
    printf("fine_grained %d", rounds);
    for (int i = 0; i < 6; i++)
        printf(" %016lx", (unsigned long)sums[i]);
    printf("\n");
    return 0;
}
