// Prints the processor time, in nanoseconds, of a loop that reads and writes memory, calls and
// branches, after having done the same for a second.
// compare: status
// trace: no
#include "expect.h"
#include <time.h>

static long now_ns(clockid_t clock) {
    struct timespec now;
    EXPECT(clock_gettime(clock, &now) == 0);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static volatile long words[1024];

static __attribute__((noinline)) long forward(long value) { return value + 1; }
static __attribute__((noinline)) long twice(long value) { return value * 2; }
static long (*volatile functions[2])(long) = {forward, twice};

static long work(void) {
    long before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (long round = 0; round < 2000000; round++)
        words[round & 1023] = functions[round & 1](words[(round * 7) & 1023]);
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

int main(void) {
    long end = now_ns(CLOCK_MONOTONIC) + 1000000000;
    while (now_ns(CLOCK_MONOTONIC) < end)
        work();
    long least = work();
    for (int time = 0; time < 10; time++) {
        long again = work();
        least = again < least ? again : least;
    }
    printf("%ld\n", least);
    return 0;
}
