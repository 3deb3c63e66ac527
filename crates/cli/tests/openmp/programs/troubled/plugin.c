// A plugin that uses OpenMP: two threads share a loop. The runtime tells which it is.
#include <dlfcn.h>
#include <omp.h>

int run(void **runtime)
{
    int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 100; i++)
            sum += i;
    }
    // At the end of this one's function the program jumps to the barrier.
#pragma omp parallel num_threads(2)
    {
#pragma omp barrier
    }
    Dl_info where;
    dladdr((void *)omp_get_max_threads, &where);
    *runtime = where.dli_fbase;
    return sum;
}
