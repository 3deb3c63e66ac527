// Signals taken without a handler: sigwaitinfo, sigtimedwait, signalfd, sigsuspend.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include "expect.h"

static volatile int handled;

static void handler(int signal) {
    handled = signal;
}

int main(void) {
    sigset_t set, none;
    siginfo_t information;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);

    sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 42});
    EXPECT(sigwaitinfo(&set, &information) == SIGRTMIN + 1 && information.si_value.sival_int == 42);
    struct timespec soon = {0, 10000000};
    EXPECT(sigtimedwait(&set, &information, &soon) == -1 && errno == EAGAIN);

    int file = signalfd(-1, &set, SFD_CLOEXEC);
    struct signalfd_siginfo read_information;
    kill(getpid(), SIGUSR1);
    EXPECT(read(file, &read_information, sizeof read_information) == sizeof read_information);
    EXPECT(read_information.ssi_signo == SIGUSR1);

    signal(SIGUSR1, handler);
    kill(getpid(), SIGUSR1);
    EXPECT(handled == 0);
    EXPECT(sigsuspend(&none) == -1 && errno == EINTR && handled == SIGUSR1);
    puts("each way");
    return 0;
}
