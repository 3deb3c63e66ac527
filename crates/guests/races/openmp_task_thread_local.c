// Tasks count in a variable of their thread, without asking which that is; those of the racy twin in
// one for all. A thread of the program's executes them, because that of the runtime waits for a lock.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
static long of_thread, of_all;
#pragma omp threadprivate(of_thread)
static omp_lock_t all_done;
static void *execute(void *unused) {
    omp_init_lock(&all_done);
    omp_set_lock(&all_done);
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            for (int number = 0; number < 4; number++) {
#pragma omp task
                {
                    of_thread += number;
                    IF_RACY(of_all += number;) // race: of_all
                    KEEP;
                }
            }
#pragma omp taskwait
            omp_unset_lock(&all_done);
        } else {
            omp_set_lock(&all_done);
            omp_unset_lock(&all_done);
        }
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, execute, NULL);
    pthread_join(thread, NULL);
    return of_thread + of_all == 7;
}
