// A thread forks children, which end at once, while the first thread ends the process. All of
// them end, too.
// flags: -O2 -pthread

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 50 };

static atomic_int begun;
static pid_t process;

static void *fork_on(void *unused) {
    for (int child = 0; child < MOST; child++) {
        if (fork() == 0)
            _exit(0);
        atomic_fetch_add(&begun, 1);
        usleep(5000);
    }
    pause();
    return unused;
}

static int fork_and_end(void) {
    pthread_t thread;
    setpgid(0, 0);
    if (pthread_create(&thread, NULL, fork_on, NULL) != 0)
        return 1;
    while (atomic_load(&begun) < 2)
        usleep(1000);
    return 0;
}

static void too_late(int signal) {
    (void)signal;
    kill(-process, SIGKILL);
    _exit(1);
}

int main(void) {
    // Children that are left behind are this process's from then on.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    process = fork();
    if (process == 0)
        exit(fork_and_end());
    signal(SIGALRM, too_late);
    alarm(20);
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    puts(failed == 0 ? "all ended" : "failed");
    return failed != 0;
}
