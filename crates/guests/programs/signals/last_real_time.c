// The last real-time signals are the program's like all others: blocked, queued with their values,
// waited for, read, and handled in order.
// flags: -O1 -D_GNU_SOURCE
#include <signal.h>
#include <sys/signalfd.h>

#include "expect.h"

static int values[8], handled;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)signal, (void)context;
    values[handled++] = information->si_value.sival_int;
}

static void one(int signal) {
    sigset_t set, pending;
    siginfo_t information;
    struct signalfd_siginfo read_information;
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigaction(signal, &(struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int value = 1; value <= 5; value++)
        EXPECT(sigqueue(getpid(), signal, (union sigval){.sival_int = value}) == 0);
    sigpending(&pending);
    EXPECT(sigismember(&pending, signal) && handled == 0);
    EXPECT(sigwaitinfo(&set, &information) == signal && information.si_value.sival_int == 1);
    int file = signalfd(-1, &set, SFD_CLOEXEC);
    EXPECT(read(file, &read_information, sizeof read_information) == sizeof read_information);
    EXPECT(read_information.ssi_signo == (unsigned)signal && read_information.ssi_int == 2);
    close(file);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    // The last that is taken is the first whose handler ends.
    EXPECT(handled == 3 && values[0] == 3 && values[1] == 4 && values[2] == 5);
    handled = 0;
}

int main(void) {
    for (int signal = SIGRTMAX - 2; signal <= SIGRTMAX; signal++)
        one(signal);
    puts("all of them");
    return 0;
}
