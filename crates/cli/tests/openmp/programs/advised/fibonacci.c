// A Fibonacci number by tasks, down to a number; below it without. Arguments: this one, and which number.
#include <stdio.h>
#include <stdlib.h>

static int least;

static long fibonacci(int n)
{
    long one, other;
    if (n < 2)
        return n;
    if (n < least)
        return fibonacci(n - 1) + fibonacci(n - 2);
#pragma omp task shared(one)
    one = fibonacci(n - 1);
#pragma omp task shared(other)
    other = fibonacci(n - 2);
#pragma omp taskwait
    return one + other;
}

int main(int count, char **words)
{
    long result = 0;
    int number = count > 2 ? atoi(words[2]) : 25;
    least = count > 1 ? atoi(words[1]) : 2;
#pragma omp parallel
#pragma omp single
    result = fibonacci(number);
    printf("%ld\n", result);
    return 0;
}
