// Threads of the system's own, one after the other, each of which uses OpenMP and ends. At no
// time are there more than three: the first, one of these, and its worker.
#include "../planted.h"
#include <pthread.h>

static void *once(void *nothing)
{
    work(20);
#pragma omp parallel num_threads(2)
    work(20);
    return nothing;
}

int main(void)
{
#pragma omp parallel num_threads(2)
    work(20);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, once, 0) || pthread_join(thread, 0))
            return 1;
    }
    work(400);
    return 0;
}
