// A thread that the program has created makes tasks and executes all of them, which share a variable
// of its first function's frame: right below its thread-local variables, which it has for itself.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
static __thread long of_thread[64];
static _Atomic int done;
static void *tasks(void *unused) { // race: -
    long sum = 0; // race: -
#pragma omp parallel num_threads(2) shared(sum)
    {
        if (omp_get_thread_num() == 0) {
            for (long number = 0; number < 4; number++) {
#pragma omp task shared(sum)
                {
                    of_thread[0]++;
                    of_thread[63]++;
                    sum += number; // race: -
                }
                UNLESS_RACY(_Pragma("omp taskwait"))
            }
#pragma omp taskwait
            done = 1;
        } else {
            while (!done)
                usleep(100);
        }
    }
    return sum == 77 ? unused : NULL;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, tasks, NULL);
    pthread_join(thread, NULL);
    return 0;
}
