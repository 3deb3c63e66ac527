// Sessions, process groups, stopping and continuing a child, orphans.
// flags: -O2 -D_GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "expect.h"

int main(void) {
    int status;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t child = fork();
    if (child == 0) {
        EXPECT(setpgid(0, 0) == 0 && getpgrp() == getpid());
        for (;;)
            pause();
    }
    EXPECT(kill(child, SIGSTOP) == 0);
    EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    EXPECT(kill(child, SIGCONT) == 0);
    EXPECT(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    EXPECT(kill(child, SIGTERM) == 0);
    EXPECT(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGTERM);

    child = fork();
    if (child == 0) {
        EXPECT(setsid() == getpid());
        if (fork() == 0) {
            usleep(20000); // By now an orphan, with the first process as its parent.
            _exit(8);
        }
        _exit(7);
    }
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    EXPECT(wait(&status) > 0 && WEXITSTATUS(status) == 8);
    puts("in order");
    return 0;
}
