// Signals that instructions raise, but sent: while they are blocked they are pending, are waited
// for and read, in this thread or another; a real fault under the same mask is deadly.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

static const int kinds[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
enum { KINDS = sizeof kinds / sizeof *kinds };
static volatile int handled[65];

static void handler(int signal) { handled[signal]++; }

static int is_pending(int signal) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, signal);
}

static void *wait_for_one(void *number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, *(int *)number);
    siginfo_t information;
    EXPECT(sigwaitinfo(&set, &information) == *(int *)number);
    EXPECT(information.si_value.sival_int == 5);
    return NULL;
}

static void one_thread(int signal) {
    sigset_t set, none;
    siginfo_t information;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);

    kill(getpid(), signal);
    kill(getpid(), signal);
    EXPECT(handled[signal] == 0 && is_pending(signal));
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    EXPECT(handled[signal] == 1 && !is_pending(signal));

    sigprocmask(SIG_BLOCK, &set, NULL);
    sigqueue(getpid(), signal, (union sigval){.sival_int = 7});
    EXPECT(sigwaitinfo(&set, &information) == signal && information.si_value.sival_int == 7);
    EXPECT(sigtimedwait(&set, &information, &(struct timespec){0, 1000000}) == -1 && errno == EAGAIN);

    int file = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct signalfd_siginfo read_information;
    struct pollfd poll_file = {file, POLLIN, 0};
    EXPECT(poll(&poll_file, 1, 0) == 0);
    raise(signal);
    EXPECT(poll(&poll_file, 1, 1000) == 1 && poll_file.revents == POLLIN);
    EXPECT(read(file, &read_information, sizeof read_information) == sizeof read_information);
    EXPECT(read_information.ssi_signo == (unsigned)signal && !is_pending(signal));
    close(file);

    raise(signal);
    EXPECT(handled[signal] == 1);
    EXPECT(sigsuspend(&none) == -1 && errno == EINTR && handled[signal] == 2);
    EXPECT(!is_pending(signal));
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void another_thread(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_one, &signal);
    EXPECT(pthread_sigqueue(thread, signal, (union sigval){.sival_int = 5}) == 0);
    pthread_join(thread, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    EXPECT(handled[signal] == 2);
}

int main(void) {
    for (int i = 0; i < KINDS; i++) {
        sigaction(kinds[i], &(struct sigaction){.sa_handler = handler}, NULL);
        one_thread(kinds[i]);
        another_thread(kinds[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        *(volatile int *)16 = 1;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    puts("sent and kept");
    return 0;
}
