// Message passing: whoever sees the flag sees the data, with plain x86 stores and loads.
// flags: -O2 -pthread
#include "litmus.h"

enum { ROUNDS = 3000 };

static struct meeting start = {.threads = 2}, end = {.threads = 2};
static _Alignas(64) atomic_int data;
static _Alignas(64) atomic_int flag;

static void *send(void *unused) {
    for (int i = 1; i <= ROUNDS; i++) {
        meet(&start);
        atomic_store_explicit(&data, i, memory_order_relaxed);
        atomic_store_explicit(&flag, i, memory_order_release);
        meet(&end);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, send, NULL) == 0);
    for (int i = 1; i <= ROUNDS; i++) {
        meet(&start);
        int flag_seen = atomic_load_explicit(&flag, memory_order_acquire);
        int data_seen = atomic_load_explicit(&data, memory_order_relaxed);
        EXPECT(flag_seen != i || data_seen == i);
        meet(&end);
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("the data never came after the flag");
    return 0;
}
