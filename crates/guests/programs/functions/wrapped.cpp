// Calls functions that recurse, return floating-point numbers, throw, and are jumped out of, in
// two threads, while a timer interrupts them; their results are what they should be.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <sys/time.h>

#include "../expect.h"

extern "C" {
__attribute__((noinline)) long deep(long n) {
    __asm__ volatile("");
    return n == 0 ? 0 : 1 + deep(n - 1);
}

__attribute__((noinline)) double scale(double by, long n) {
    __asm__ volatile("");
    return by * (double)n;
}

__attribute__((noinline)) long chosen(long n) {
    __asm__ volatile("");
    return 2 * n + 1;
}

__attribute__((noinline)) void thrower(long n) {
    __asm__ volatile("");
    if (n % 3 == 0)
        throw n;
}

__attribute__((noinline)) void jumper(jmp_buf *to, long n) {
    __asm__ volatile("");
    if (n % 3 == 0)
        longjmp(*to, 1);
}
}

static void tick(int) {
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n std\n cld" ::: "xmm0", "rax", "rcx", "rdx");
}

static long jump(long n) {
    jmp_buf back;
    if (setjmp(back) != 0)
        return 1;
    jumper(&back, n);
    return 0;
}

static void *work(void *) {
    for (long n = 0; n < 3000; n++) {
        EXPECT(deep(n % 50) == n % 50);
        EXPECT(scale(0.5, n) == 0.5 * n);
        EXPECT(chosen(n) == 2 * n + 1);
        long thrown = -1;
        try {
            thrower(n);
        } catch (long number) {
            thrown = number;
        }
        EXPECT(thrown == (n % 3 == 0 ? n : -1));
        EXPECT(jump(n) == (n % 3 == 0));
    }
    return nullptr;
}

int main() {
    struct sigaction action = {};
    action.sa_handler = tick;
    action.sa_flags = SA_RESTART;
    struct itimerval interval = {{0, 300}, {0, 300}};
    sigaction(SIGALRM, &action, nullptr);
    setitimer(ITIMER_REAL, &interval, nullptr);
    pthread_t other;
    EXPECT(pthread_create(&other, nullptr, work, nullptr) == 0);
    work(nullptr);
    EXPECT(pthread_join(other, nullptr) == 0);
    printf("as it should be\n");
}
