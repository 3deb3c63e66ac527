// A thread opens its mask for two signals to the process that wait, and ends in the handler of the
// first, which blocks the second: that one is still there for another thread.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "expect.h"

enum { THREADS = 300 };

static atomic_int handled;
static sigset_t both;

static void ends(int signal) {
    (void)signal;
    syscall(SYS_exit, 0);
}

static void counts(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void *opens(void *nothing) {
    pthread_sigmask(SIG_UNBLOCK, &both, NULL);
    EXPECT(!"the thread has ended");
    return nothing;
}

int main(void) {
    int first = SIGRTMIN + 1, second = SIGRTMIN + 2;
    sigemptyset(&both);
    sigaddset(&both, first);
    sigaddset(&both, second);
    sigprocmask(SIG_BLOCK, &both, NULL);
    sigaction(first, &(struct sigaction){.sa_handler = ends, .sa_mask = both}, NULL);
    sigaction(second, &(struct sigaction){.sa_handler = counts}, NULL);
    for (int number = 1; number <= THREADS; number++) {
        EXPECT(kill(getpid(), first) == 0 && kill(getpid(), second) == 0);
        pthread_t thread;
        pthread_create(&thread, NULL, opens, NULL);
        pthread_join(thread, NULL);
        sigset_t pending;
        sigpending(&pending);
        EXPECT(sigismember(&pending, second) && !sigismember(&pending, first));
        sigset_t second_only;
        sigemptyset(&second_only);
        sigaddset(&second_only, second);
        sigprocmask(SIG_UNBLOCK, &second_only, NULL);
        EXPECT(atomic_load(&handled) == number);
        sigprocmask(SIG_BLOCK, &second_only, NULL);
    }
    printf("%d signals came after the end\n", atomic_load(&handled));
    return 0;
}
