// Handlers inside handlers, masks during handlers, blocked and pending signals, one-shot
// handlers, and a handler that blocks nothing.
// flags: -O2 -D_GNU_SOURCE
#include <signal.h>
#include <string.h>

#include "expect.h"

static char order[200];
static volatile int deferred_depth;

static void note(const char *what) {
    strcat(order, what);
}

static void outer(int signal) {
    (void)signal;
    note("(outer ");
    raise(SIGUSR2); // Not masked: runs at once.
    raise(SIGTERM); // Masked by sa_mask: runs after this handler.
    note("outer) ");
}

static void inner(int signal) {
    (void)signal;
    note("inner ");
}

static void later(int signal) {
    sigset_t mask;
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, signal));
    note("later ");
}

static void again(int signal) {
    if (deferred_depth++ < 3)
        raise(signal);
}

int main(void) {
    struct sigaction action = {.sa_handler = outer};
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGUSR2, inner);
    signal(SIGTERM, later);
    raise(SIGUSR1);

    sigset_t block, pending;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    sigprocmask(SIG_BLOCK, &block, NULL);
    raise(SIGUSR2);
    raise(SIGUSR2); // Merges with the one that waits.
    EXPECT(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2));
    note("blocked ");
    sigprocmask(SIG_UNBLOCK, &block, NULL);

    struct sigaction once = {.sa_handler = inner, .sa_flags = SA_RESETHAND}, now;
    sigaction(SIGWINCH, &once, NULL);
    raise(SIGWINCH);
    raise(SIGWINCH); // By default ignored.
    sigaction(SIGWINCH, NULL, &now);
    EXPECT(now.sa_handler == SIG_DFL);

    struct sigaction nodefer = {.sa_handler = again, .sa_flags = SA_NODEFER};
    sigaction(SIGHUP, &nodefer, NULL);
    raise(SIGHUP);
    printf("%s%d\n", order, deferred_depth);
    return 0;
}
