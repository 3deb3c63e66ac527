// Real-time signals queue in order with their values, signalfd and sigwait take them,
// SA_RESTART decides what becomes of a read, siglongjmp leaves a handler, and a child's
// end is told.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

static int order[64], seen;
static atomic_int alarms;
static sigjmp_buf out;
static int pipes[2];

static void note(int signal, siginfo_t *information, void *context) {
    (void)context;
    if (seen < 64)
        order[seen++] = (signal - SIGRTMIN) * 100 + information->si_value.sival_int;
}

static void on_alarm(int signal) {
    (void)signal;
    // The second one lets the read end.
    if (atomic_fetch_add(&alarms, 1) == 1)
        EXPECT(write(pipes[1], "r", 1) == 1);
}

static void jump(int signal) { siglongjmp(out, signal); }

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    EXPECT(sigaction(signal, &action, NULL) == 0);
}

int main(void) {
    // Queued while blocked: the lower number first, each number in the order of sending.
    sigset_t set, old;
    sigemptyset(&set);
    for (int i = 0; i < 3; i++) {
        struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
        sigfillset(&action.sa_mask);
        EXPECT(sigaction(SIGRTMIN + i, &action, NULL) == 0);
        sigaddset(&set, SIGRTMIN + i);
    }
    EXPECT(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    for (int i = 0; i < 12; i++)
        EXPECT(sigqueue(getpid(), SIGRTMIN + 2 - i % 3, (union sigval){.sival_int = i}) == 0);
    EXPECT(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    EXPECT(seen == 12);
    for (int i = 0; i < seen; i++)
        printf("%d ", order[i]);
    puts("");

    // Taken by a descriptor, and by waiting.
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int descriptor = signalfd(-1, &set, 0);
    EXPECT(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 5}) == 0);
    struct signalfd_siginfo taken;
    EXPECT(read(descriptor, &taken, sizeof taken) == sizeof taken);
    EXPECT(taken.ssi_signo == (unsigned)SIGRTMIN + 1 && taken.ssi_int == 5);
    EXPECT(kill(getpid(), SIGRTMIN) == 0);
    int signal;
    EXPECT(sigwait(&set, &signal) == 0 && signal == SIGRTMIN);
    struct timespec short_time = {0, 1000000};
    EXPECT(sigtimedwait(&set, NULL, &short_time) == -1 && errno == EAGAIN);

    // With SA_RESTART the read goes on; without, it ends with EINTR.
    EXPECT(pipe(pipes) == 0);
    char byte = 0;
    struct itimerval twice = {{0, 30000}, {0, 30000}}, never = {{0, 0}, {0, 0}};
    handle(SIGALRM, on_alarm, SA_RESTART);
    EXPECT(setitimer(ITIMER_REAL, &twice, NULL) == 0);
    EXPECT(read(pipes[0], &byte, 1) == 1 && byte == 'r');
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    EXPECT(atomic_load(&alarms) >= 2);
    atomic_store(&alarms, 10);
    handle(SIGALRM, on_alarm, 0);
    EXPECT(setitimer(ITIMER_REAL, &twice, NULL) == 0);
    EXPECT(read(pipes[0], &byte, 1) == -1 && errno == EINTR);
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);

    // Out of a handler, many times, with the mask as it was.
    handle(SIGUSR1, jump, 0);
    volatile int jumps = 0;
    for (int i = 0; i < 100; i++)
        if (sigsetjmp(out, 1) == 0)
            raise(SIGUSR1);
        else
            jumps++;
    EXPECT(jumps == 100);

    // A child's end, with its status.
    sigset_t child_set;
    sigemptyset(&child_set);
    sigaddset(&child_set, SIGCHLD);
    EXPECT(sigprocmask(SIG_BLOCK, &child_set, NULL) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(23);
    siginfo_t information;
    EXPECT(sigwaitinfo(&child_set, &information) == SIGCHLD);
    EXPECT(information.si_pid == child && information.si_status == 23);
    EXPECT(waitpid(child, NULL, 0) == child);
    puts("done");
    return 0;
}
