// What a handler is told: the sender, a queued value, the faulting address, a child's end.
// flags: -O2 -D_GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "expect.h"

static volatile sig_atomic_t queued, children;
static volatile siginfo_t last;

static void keep(int signal, siginfo_t *information, void *context) {
    EXPECT(context != NULL && information->si_signo == signal);
    last = *information;
    if (signal == SIGCHLD)
        children++;
    else
        queued += information->si_value.sival_int;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);

    // Real-time signals queue: all values arrive.
    for (int i = 1; i <= 10; i++)
        EXPECT(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}) == 0);
    EXPECT(queued == 55 && last.si_code == SI_QUEUE && last.si_pid == getpid());

    EXPECT(kill(getpid(), SIGUSR1) == 0);
    EXPECT(last.si_code == SI_USER && last.si_uid == getuid());
    EXPECT(raise(SIGUSR1) == 0 && last.si_code == SI_TKILL);

    pid_t child = fork();
    if (child == 0)
        _exit(3);
    int status;
    while (waitpid(child, &status, 0) < 0) {
    }
    while (children == 0)
        usleep(1000);
    EXPECT(last.si_code == CLD_EXITED && last.si_status == 3 && last.si_pid == child);
    puts("informed");
    return 0;
}
