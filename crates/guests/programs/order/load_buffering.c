// Load buffering: each of two threads reads one word and writes the other; never do both
// reads see the write that follows the other's read.
// flags: -O2 -pthread
#include "litmus.h"

enum { ROUNDS = 3000 };

static struct meeting start = {.threads = 2}, end = {.threads = 2};
static _Alignas(64) atomic_int x;
static _Alignas(64) atomic_int y;
static _Alignas(64) int saw_x, saw_y;

static void *other(void *unused) {
    for (int i = 1; i <= ROUNDS; i++) {
        meet(&start);
        saw_x = atomic_load_explicit(&x, memory_order_relaxed);
        atomic_store_explicit(&y, i, memory_order_relaxed);
        meet(&end);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, other, NULL) == 0);
    for (int i = 1; i <= ROUNDS; i++) {
        meet(&start);
        saw_y = atomic_load_explicit(&y, memory_order_relaxed);
        atomic_store_explicit(&x, i, memory_order_relaxed);
        meet(&end);
        EXPECT(saw_x != i || saw_y != i);
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("no read came after its write");
    return 0;
}
