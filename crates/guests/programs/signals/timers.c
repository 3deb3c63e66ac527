// An interval timer interrupts a computation many times; its result and every register
// stay what they would be without. The loop makes no call.
// flags: -O2 -D_GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>

#include "expect.h"

static volatile sig_atomic_t ticks;
static double heat = 1.0;

static void tick(int signal) {
    (void)signal;
    ticks++;
    // Use what the computation uses, so that a register not put back shows.
    heat = heat * 1.0001 + 0.5;
    __asm__ volatile("pcmpeqd %%xmm7, %%xmm7\n std\n cld" ::: "xmm7");
}

int main(void) {
    struct sigaction action = {.sa_handler = tick};
    struct itimerval interval = {{0, 1000}, {0, 1000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    uint64_t state = 88172645463325252u, sum = 0;
    double product = 1.0;
    long rounds = 0;
    do {
        // The same 100,000 steps again and again: each time the same result.
        uint64_t before = state;
        for (int i = 0; i < 100000; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            sum += state & 0xff;
            product *= 1.0 + (double)(state & 7) * 1e-9;
        }
        static uint64_t wanted_sum;
        static double wanted_product;
        if (rounds++ == 0) {
            wanted_sum = sum;
            wanted_product = product;
        }
        EXPECT(sum == wanted_sum && product == wanted_product);
        state = before;
        sum = 0;
        product = 1.0;
    } while (ticks < 100);
    puts("undisturbed");
    return 0;
}
