// A leaf function keeps values below the stack pointer while signals arrive: the handler's
// frame must not touch them.
// flags: -O2 -D_GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "expect.h"

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    char frame[512];
    memset(frame, signal, sizeof frame);
    __asm__ volatile("" ::"r"(frame) : "memory");
    ticks++;
}

static __attribute__((noinline)) long leaf(long value) {
    long result;
    __asm__ volatile(
        "movq %1, -8(%%rsp)\n movq %1, -128(%%rsp)\n"
        "mov $5000, %%ecx\n 1: dec %%ecx\n jnz 1b\n"
        "movq -8(%%rsp), %0\n xorq -128(%%rsp), %0\n"
        : "=&r"(result) : "r"(value) : "rcx", "cc", "memory");
    return result;
}

int main(void) {
    struct sigaction action = {.sa_handler = tick};
    struct itimerval interval = {{0, 500}, {0, 500}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    for (long i = 1; ticks < 100; i++)
        EXPECT(leaf(i) == 0);
    puts("untouched");
    return 0;
}
