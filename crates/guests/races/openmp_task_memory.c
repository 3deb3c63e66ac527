// What tasks have for themselves lies where others had it before, in the same stack, heap and
// thread; in the racy twin all count in one place. There are more tasks than a runtime puts off. Every
// other one asks which thread executes it: two that do are not held against each other, and one
// thread may execute all.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
#include <omp.h>
long total, of_threads[2];
static long of_thread;
#pragma omp threadprivate(of_thread)
static long in_stack(long number) {
    volatile long numbers[16];
    for (int place = 0; place < 16; place++)
        numbers[place] = number + place;
    return numbers[number % 16];
}
static long in_heap(long number) {
    long *numbers = malloc(64);
    for (int place = 0; place < 8; place++)
        numbers[place] = number + place;
    long result = numbers[number % 8];
    free(numbers);
    return result;
}
int main(void) {
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        for (long number = 0; number < 1000; number++) {
            long own = number;
#pragma omp task firstprivate(own)
            {
                own += in_stack(own) + in_heap(own);
                of_thread += own;
                if (number % 2)
                    of_threads[omp_get_thread_num()] += own;
                IF_RACY(total += own;) // race: total
            }
        }
#pragma omp critical
        total += of_thread; // race: total
    }
    return total + of_threads[0] == 7;
}
