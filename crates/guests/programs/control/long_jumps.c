// setjmp and longjmp out of deep calls, thousands of times, and across a signal mask.
// flags: -O2 -Wno-infinite-recursion -D_GNU_SOURCE
// variants: threaded
#include <setjmp.h>
#include <signal.h>

#include "expect.h"

static jmp_buf out;

static __attribute__((noinline)) int dive(int depth, int value) {
    if (depth == 0)
        longjmp(out, value);
    return dive(depth - 1, value) + 1;
}

int main(void) {
    static long sum;
    for (volatile int i = 1; i <= 3000; i++) {
        int value = setjmp(out);
        if (value == 0)
            dive(i % 50, i);
        EXPECT(value == i);
        sum += value;
    }
    sigjmp_buf with_mask;
    sigset_t set, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (sigsetjmp(with_mask, 1) == 0) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        siglongjmp(with_mask, 1);
    }
    sigprocmask(SIG_BLOCK, NULL, &now);
    EXPECT(!sigismember(&now, SIGUSR1));
    printf("%ld\n", sum);
    return 0;
}
