// A stack overflow is caught on an alternate stack and left by siglongjmp, twice.
// flags: -O1 -D_GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "expect.h"

static sigjmp_buf recovery;
static char *alternate;
static volatile int depth;

static void overflow(int signal, siginfo_t *information, void *context) {
    char here;
    (void)context;
    EXPECT(signal == SIGSEGV && information->si_addr != NULL);
    EXPECT(&here > alternate && &here < alternate + 65536);
    stack_t stack;
    EXPECT(sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK));
    siglongjmp(recovery, 1);
}

static int dig(int level) {
    volatile char frame[2000];
    frame[0] = (char)level;
    depth = level;
    return level < 1000000 ? dig(level + 1) + frame[0] : 0;
}

int main(void) {
    struct rlimit limit = {1 << 20, 8 << 20};
    setrlimit(RLIMIT_STACK, &limit);
    alternate = malloc(65536);
    stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
    EXPECT(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_sigaction = overflow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 2; i++) {
        depth = 0;
        if (sigsetjmp(recovery, 1) == 0)
            dig(0);
        EXPECT(depth > 100);
    }
    puts("recovered twice");
    return 0;
}
