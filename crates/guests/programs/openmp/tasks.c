// OpenMP tasks: recursive, with dependences, in task groups, and locks between them.
// flags: -O2 -fopenmp
// variants: clang
#include <omp.h>

#include "expect.h"

static long fibonacci(int n) {
    if (n < 2)
        return n;
    long left, right;
    if (n < 10)
        return fibonacci(n - 1) + fibonacci(n - 2);
#pragma omp task shared(left)
    left = fibonacci(n - 1);
#pragma omp task shared(right)
    right = fibonacci(n - 2);
#pragma omp taskwait
    return left + right;
}

int main(void) {
    long value = 0, chain = 1, locked = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        value = fibonacci(18);
        for (int i = 0; i < 50; i++) {
#pragma omp task depend(inout : chain) shared(chain)
            chain = (chain * 3 + 1) % 10007;
        }
#pragma omp taskgroup
        for (int i = 0; i < 50; i++) {
#pragma omp task shared(locked, lock)
            {
                omp_set_lock(&lock);
                locked++;
                omp_unset_lock(&lock);
            }
        }
        EXPECT(locked == 50);
    }
    printf("%ld %ld %ld\n", value, chain, locked);
    return 0;
}
