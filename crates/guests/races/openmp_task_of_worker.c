// One thread that the runtime has created executes tasks and what has made them, one on top of the
// other, in a stack that ends right below its thread-local variables. The stack is shared by what
// runs there, the thread-local variables are the thread's.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
static __thread long of_thread[4096];
static _Atomic int done;
static void tasks(void) { // race: -
    long sum = 0; // race: -
    for (long number = 0; number < 4; number++) {
#pragma omp task shared(sum)
        {
            of_thread[0]++;
            of_thread[4095]++;
            sum += number; // race: -
        }
        UNLESS_RACY(_Pragma("omp taskwait"))
        sum = sum + 1; // race: -
    }
#pragma omp taskwait
}
int main(void) {
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 1) {
            tasks();
            done = 1;
        } else {
            while (!done)
                usleep(100);
        }
    }
    return 0;
}
