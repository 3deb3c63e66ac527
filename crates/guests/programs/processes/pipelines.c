// A pipeline as a shell runs it: a process group that is stopped, continued and ended as a whole,
// a writer whose reader has gone, and a parent that hears of each change by SIGCHLD, waitid and
// a process descriptor.
// flags: -O1 -D_GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

static volatile sig_atomic_t changes;

static void changed(int signal, siginfo_t *information, void *context) {
    (void)context;
    EXPECT(signal == SIGCHLD && information->si_pid > 0);
    changes++;
}

// Starts a part of a pipeline in the group of its first one.
static pid_t start(pid_t group, int input, int output, int unused, void (*body)(void)) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        setpgid(0, group);
        signal(SIGCHLD, SIG_DFL);
        if (input >= 0)
            dup2(input, 0);
        if (output >= 0)
            dup2(output, 1);
        close(input);
        close(output);
        close(unused);
        body();
        _exit(0);
    }
    setpgid(child, group ? group : child);
    return child;
}

static void write_for_ever(void) {
    static char text[4096];
    memset(text, 'x', sizeof text);
    while (write(1, text, sizeof text) > 0)
        ;
    _exit(80);
}

static void pass_on(void) {
    char text[1000];
    ssize_t count;
    while ((count = read(0, text, sizeof text)) > 0)
        if (write(1, text, count) < 0)
            _exit(errno == EPIPE ? 81 : 82);
}

static void pass_on_without_signal(void) {
    signal(SIGPIPE, SIG_IGN);
    pass_on();
}

static void read_some(void) {
    char text[100];
    for (int i = 0; i < 100; i++)
        EXPECT(read(0, text, sizeof text) > 0 && text[0] == 'x');
    _exit(3);
}

static int next_change(pid_t child, int wanted) {
    siginfo_t information = {0};
    while (waitid(P_PID, child, &information, wanted) == -1)
        EXPECT(errno == EINTR);
    EXPECT(information.si_signo == SIGCHLD && information.si_pid == child);
    return information.si_code << 8 | information.si_status;
}

static void pipeline(void (*middle)(void), int middles_end) {
    int first[2], second[2];
    EXPECT(pipe(first) == 0);
    pid_t writer = start(0, -1, first[1], first[0], write_for_ever);
    close(first[1]);
    EXPECT(pipe(second) == 0);
    pid_t passer = start(writer, first[0], second[1], second[0], middle);
    close(first[0]);
    close(second[1]);
    pid_t reader = start(writer, second[0], -1, -1, read_some);
    close(second[0]);
    EXPECT(next_change(reader, WEXITED) == (CLD_EXITED << 8 | 3));
    EXPECT(next_change(passer, WEXITED) == middles_end);
    EXPECT(next_change(writer, WEXITED) == (CLD_KILLED << 8 | SIGPIPE));
}

static void wait_for_ever(void) {
    for (;;)
        pause();
}

static void job(void) {
    pid_t one = start(0, -1, -1, -1, wait_for_ever);
    pid_t other = start(one, -1, -1, -1, write_for_ever);
    EXPECT(getpgid(other) == one && getpgrp() != one);
    changes = 0;
    EXPECT(kill(-one, SIGTSTP) == 0);
    EXPECT(next_change(one, WSTOPPED) == (CLD_STOPPED << 8 | SIGTSTP));
    EXPECT(next_change(other, WSTOPPED) == (CLD_STOPPED << 8 | SIGTSTP));
    EXPECT(changes >= 1 && kill(-one, SIGCONT) == 0);
    EXPECT(next_change(one, WCONTINUED) == (CLD_CONTINUED << 8 | SIGCONT));
    EXPECT(next_change(other, WCONTINUED) == (CLD_CONTINUED << 8 | SIGCONT));
    int descriptor = syscall(SYS_pidfd_open, other, 0);
    EXPECT(descriptor >= 0);
    struct pollfd waiting = {descriptor, POLLIN, 0};
    // That a child goes on may be waited for before the signal that tells it comes.
    int ready;
    while ((ready = poll(&waiting, 1, 0)) == -1)
        EXPECT(errno == EINTR);
    EXPECT(ready == 0);
    EXPECT(syscall(SYS_pidfd_send_signal, descriptor, SIGTERM, NULL, 0) == 0);
    while (poll(&waiting, 1, 10000) == -1)
        EXPECT(errno == EINTR);
    EXPECT(waiting.revents == POLLIN);
    EXPECT(next_change(other, WEXITED) == (CLD_KILLED << 8 | SIGTERM));
    EXPECT(kill(-one, SIGKILL) == 0);
    EXPECT(next_change(one, WEXITED) == (CLD_KILLED << 8 | SIGKILL));
    EXPECT(kill(-one, 0) == -1 && errno == ESRCH);
    close(descriptor);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = changed, .sa_flags = SA_SIGINFO | SA_RESTART};
    EXPECT(sigaction(SIGCHLD, &action, NULL) == 0);
    pipeline(pass_on, CLD_KILLED << 8 | SIGPIPE);
    pipeline(pass_on_without_signal, CLD_EXITED << 8 | 81);
    // One part of the job writes, until nobody reads.
    int sink[2];
    EXPECT(pipe(sink) == 0);
    int kept = dup(1);
    dup2(sink[1], 1);
    job();
    dup2(kept, 1);
    EXPECT(wait(NULL) == -1 && errno == ECHILD);
    puts("piped");
    return 0;
}
