// Every construct once or a few times; two threads. What is seen of it from outside, by
// runtime, and what its instrumented form counts.
// seen: gcc 6 parallel region
// seen: gcc 6 loop
// seen: gcc 4 ordered
// seen: gcc 2 critical
// seen: gcc 6 lock
// seen: gcc 2 barrier
// seen: gcc 1 single
// seen: gcc 2 sections
// seen: gcc 88 taskwait
// seen: gcc 1 taskgroup
// seen: gcc 2 taskloop
// seen: gcc 0 master
// seen: gcc 0 flush
// seen: gcc 0 target
// seen: clang 6 parallel region
// seen: clang 10 loop
// seen: clang 4 ordered
// seen: clang 2 critical
// seen: clang 4 lock
// seen: clang 2 barrier
// seen: clang 1 single
// seen: clang 2 sections
// seen: clang 88 taskwait
// seen: clang 3 taskgroup
// seen: clang 2 taskloop
// seen: clang 1 master
// seen: clang 2 flush
// counts: 12 critical atomic
// counts: 2 critical name
// counts: 4 ordered
// counts: 2 section
// counts: 1 master
// counts: 2 single
// counts: 2 sections
// counts: 2 flush
// counts: 177 task
// counts: 177 function body fib
// counts: 88 taskwait
// counts: 1 taskgroup
// counts: 12 function body step
// counts: 2 function call @set_lock_lock
// counts: 4 function call @set_nested_nest
// counts: 10 omp loop
// counts: 6 parallel
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define TWICE(x) ((x) * 2)
struct pair { int a, b; };
static const int table[3] = { 1, 2, 3 };
enum color { RED, GREEN };
typedef struct { double x; } point;
static int fib(int n)
{
    if (n < 2) return n;
    int a, b;
#pragma omp task shared(a) if (n > 8)
    a = fib(n - 1);
#pragma omp task shared(b) if (n > 8)
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}
int step(int *a, int n) { for (int i = 0; i < n; i++) { if (a[i] > 1000000) return 1; a[i]++; } return 0; }
static void classify(int n)
{
    switch (n) {
    case 1: step(&n, 1); break;
    case 2:
    default: {
        int k = step(&n, 1);
        (void)k;
    }
    }
again:
    while (n-- > 0)
        if (n == 3) goto again2;
again2:
    do n++; while (n < 5);
    if (n) puts("}; #pragma omp"); else step(&n, 1);
}
int main(int argc, char **argv)
{
    int total = 0, nested = 0, named = 0, grid[4][4] = { { 0 } }, values[10] = { 0 }, captured;
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
    for (int k = 0; k < 2; k++) {
#pragma omp parallel for collapse(2) default(none) shared(grid, k)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                grid[i][j] += k;
    }
#pragma unspool interval main
#pragma omp parallel num_threads(2) shared(total)
    {
#pragma omp for
        for (int i = 0; i < 10; i++) {
#pragma omp atomic
            total += 1;
            if (i > 3) step(values + i, 1);
        }
#pragma omp for schedule(dynamic) ordered
        for (int i = 0; i < 4; i++) {
#pragma omp ordered
            values[0] += TWICE(i);
        }
#pragma omp atomic capture
        { captured = total; total++; }
#pragma omp master
        for (int i = 0; i < 3; i++) values[1] += i;
#pragma omp barrier
#pragma omp single
        {
            values[9] = fib(10);
#pragma omp taskgroup
            {
#pragma omp task
                step(values + 5, 1);
            }
        }
#pragma omp sections
        {
#pragma omp section
            values[6] = 1;
#pragma omp section
            { values[7] = 1; }
        }
        omp_set_lock(&lock);
        total++;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nest);
        omp_set_nest_lock(&nest);
        nested++;
        omp_unset_nest_lock(&nest);
        omp_unset_nest_lock(&nest);
#pragma omp critical(name)
        named++;
#pragma omp flush
#pragma omp simd
        for (int i = 0; i < 10; i++) values[i] += 0;
#pragma omp for simd
        for (int i = 0; i < 10; i++) values[i] += 0;
#pragma omp taskloop
        for (int i = 0; i < 2; i++) step(values + 8, 1);
    }
#pragma unspool end interval
#pragma omp target map(tofrom : total)
    total++;
    classify(argc);
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    printf("%d %d %d %d %d %d\n", total, nested, named, values[9], grid[1][1], table[1]);
    return 0;
}
