// Two tasks that one thread executes, because the other one waits for a lock; those of the racy
// twin are not ordered, and could have been executed by two.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
long value;
static omp_lock_t both_done;
int main(void) {
    omp_init_lock(&both_done);
    omp_set_lock(&both_done);
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            UNLESS_RACY(_Pragma("omp task depend(inout : value)"))
            IF_RACY(_Pragma("omp task"))
            value += 1; // race: value
            UNLESS_RACY(_Pragma("omp task depend(inout : value)"))
            IF_RACY(_Pragma("omp task"))
            value += 2; // race: value
#pragma omp taskwait
            omp_unset_lock(&both_done);
        } else {
            omp_set_lock(&both_done);
            omp_unset_lock(&both_done);
        }
    }
    return value == 7;
}
