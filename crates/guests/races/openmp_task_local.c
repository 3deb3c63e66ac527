// Tasks share a variable of their maker's frame, which waits for them; in the racy twin it goes on
// using it meanwhile.
// flags: -fopenmp
#define OWN_THREADS
#include "twin.h"
static long fibonacci(int number) { // race: -
    if (number < 2) // race: -
        return number; // race: -
    long first, second;
#pragma omp task shared(first) if (number > 5)
    first = fibonacci(number - 1); // race: -
#pragma omp task shared(second)
    second = fibonacci(number - 2); // race: -
    UNLESS_RACY(_Pragma("omp taskwait"))
    IF_RACY(first = second = 1;) // race: -
    IF_RACY(_Pragma("omp taskwait"))
    return first + second;
}
long result;
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    result = fibonacci(10);
    return result == 7;
}
