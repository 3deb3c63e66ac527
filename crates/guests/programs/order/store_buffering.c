// Store buffering: each of two threads writes its word and reads the other's. Both reading
// zero is what x86 allows and a sequentially consistent machine does not; the count is
// printed.
// flags: -O2 -pthread
// arguments: 3000
// compare: status
#include <stdlib.h>

#include "litmus.h"

static struct meeting start = {.threads = 2}, end = {.threads = 2};
static _Alignas(64) atomic_int x;
static _Alignas(64) atomic_int y;
static _Alignas(64) int saw_x, saw_y;
static int rounds, both_zero;

static void *other(void *unused) {
    for (int i = 0; i < rounds; i++) {
        meet(&start);
        atomic_store_explicit(&y, 1, memory_order_relaxed);
        saw_x = atomic_load_explicit(&x, memory_order_relaxed);
        meet(&end);
    }
    return unused;
}

int main(int count, char **arguments) {
    rounds = count > 1 ? atoi(arguments[1]) : 1000;
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, other, NULL) == 0);
    for (int i = 0; i < rounds; i++) {
        atomic_store(&x, 0);
        atomic_store(&y, 0);
        meet(&start);
        atomic_store_explicit(&x, 1, memory_order_relaxed);
        saw_y = atomic_load_explicit(&y, memory_order_relaxed);
        meet(&end);
        both_zero += saw_x == 0 && saw_y == 0;
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    printf("both zero %d of %d\n", both_zero, rounds);
    return 0;
}
