// What annotations and options select: a registered and an unregistered thread, a region of
// interest, named functions, and a compare-and-swap that fails.
// flags: -O1 -pthread
// compare: status
#include <pthread.h>

#include "expect.h"
#include "unspool.h"

static _Alignas(64) volatile long before_region, in_region, after_region, by_registered, swapped;

static __attribute__((noinline)) long named_function(long a, long b, long c) {
    return a * b + c;
}

static void *registered(void *unused) {
    unspool_register_thread(77, "the seventy-seventh");
    by_registered = 5;
    EXPECT(named_function(10, 11, by_registered) == 115);
    return unused;
}

int main(void) {
    pthread_t thread;
    before_region = 1;
    unspool_start_region();
    in_region = 2;
    unspool_end_region();
    after_region = 3;
    EXPECT(pthread_create(&thread, NULL, registered, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(named_function(before_region, in_region, 40) == 42);
    long expected = 1;
    EXPECT(!__atomic_compare_exchange_n(&swapped, &expected, 9, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    printf("before %lu\nin %lu\nafter %lu\nregistered %lu\nswapped %lu\n", (unsigned long)&before_region,
           (unsigned long)&in_region, (unsigned long)&after_region, (unsigned long)&by_registered,
           (unsigned long)&swapped);
    return 0;
}
