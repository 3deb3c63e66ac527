// Signals that are pending when a program is executed are pending in the new one: blocked ones of
// all kinds, those of faults among them, sent before and while the thread executes it.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

static void *send(void *nothing) {
    (void)nothing;
    // As many as come before the new program; the process-directed one stays in any case.
    for (;;) {
        kill(getpid(), SIGUSR2);
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    return NULL;
}

static int look(void) {
    sigset_t pending, now;
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, NULL, &now);
    int signals[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGTRAP, SIGRTMIN + 1, SIGRTMAX};
    for (int i = 0; i < 6; i++)
        EXPECT(sigismember(&pending, signals[i]) && sigismember(&now, signals[i]));
    EXPECT(!sigismember(&pending, SIGBUS) && !sigismember(&pending, SIGRTMIN + 2));
    siginfo_t information;
    for (int value = 1; value <= 3; value++)
        EXPECT(sigwaitinfo(&now, &information) > 0);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1)
        return look();
    sigset_t set;
    sigemptyset(&set);
    int signals[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGTRAP, SIGRTMIN + 1, SIGRTMAX};
    for (int i = 0; i < 6; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t sender;
            pthread_create(&sender, NULL, send, NULL);
            raise(SIGUSR1), raise(SIGSEGV), raise(SIGTRAP);
            kill(getpid(), SIGUSR2);
            sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = round});
            sigqueue(getpid(), SIGRTMAX, (union sigval){.sival_int = round});
            execl(arguments[0], arguments[0], "again", NULL);
            _exit(98);
        }
        int status;
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    puts("all came across");
    return 0;
}
