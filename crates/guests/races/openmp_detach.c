// A task ends when another one says so, which has written meanwhile; in the racy twin it has ended
// before.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
long value, seen;
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        omp_event_handle_t event;
#pragma omp task detach(event) depend(out : seen)
        seen = 1;
#pragma omp task firstprivate(event)
        {
            IF_RACY(omp_fulfill_event(event);)
            value = 1; // race: value
            UNLESS_RACY(omp_fulfill_event(event);)
        }
#pragma omp task depend(in : seen)
        seen = value; // race: value
    }
    return seen == 7;
}
