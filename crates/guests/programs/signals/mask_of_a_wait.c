// Calls that wait with a mask of their own: it is in force in the handler that interrupts them,
// the old one behind it; all signals that it lets through are handled in one wait; what it blocks
// waits on; and a call that finds something ready has nothing handled.
// flags: -O1 -D_GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

#include "expect.h"

static int in_handler[65], handled, pipes[2], epoll;

static int mask_bits(void) {
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, SIGCHLD) | sigismember(&now, SIGUSR1) << 1 | sigismember(&now, SIGUSR2) << 2;
}

static void handler(int signal) {
    in_handler[signal] = mask_bits();
    handled++;
}

static int wait_by(int way, const sigset_t *mask) {
    struct timespec time = {5, 0};
    struct pollfd file = {pipes[0], POLLIN, 0};
    struct epoll_event event;
    fd_set files;
    FD_ZERO(&files);
    FD_SET(pipes[0], &files);
    switch (way) {
    case 0:
        return sigsuspend(mask);
    case 1:
        return ppoll(&file, 1, &time, mask);
    case 2:
        return pselect(pipes[0] + 1, &files, NULL, NULL, &time, mask);
    default:
        return epoll_pwait(epoll, &event, 1, 5000, mask);
    }
}

static void one_way(int way, int before) {
    sigset_t mask, none;
    sigemptyset(&none);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    struct itimerval soon = {{0, 0}, {0, 20000}};
    handled = 0;
    // Sent before the call, or while it waits.
    if (before)
        raise(SIGUSR1);
    else
        setitimer(ITIMER_REAL, &soon, NULL);
    int signal = before ? SIGUSR1 : SIGALRM;
    EXPECT(wait_by(way, &mask) == -1 && errno == EINTR && handled == 1);
    EXPECT((in_handler[signal] & 1) == 1 && (in_handler[signal] & 4) == 0);
    EXPECT(mask_bits() == 6);

    // Two at once.
    handled = 0;
    raise(SIGUSR1);
    raise(SIGUSR2);
    EXPECT(wait_by(way, &none) == -1 && errno == EINTR && handled == 2);
    // The second came into the first one's handler, before its first instruction.
    EXPECT(in_handler[SIGUSR1] == 2 + 4 || in_handler[SIGUSR2] == 2 + 4);
    EXPECT(mask_bits() == 6);

    if (way == 0)
        return;
    handled = 0;
    char byte = 1;
    EXPECT(write(pipes[1], &byte, 1) == 1);
    raise(SIGUSR1);
    EXPECT(wait_by(way, &none) == 1 && handled == 0 && mask_bits() == 6);
    EXPECT(read(pipes[0], &byte, 1) == 1);
    EXPECT(wait_by(way, &none) == -1 && handled == 1);
}

int main(void) {
    EXPECT(pipe(pipes) == 0);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event);
    sigset_t blocked;
    sigemptyset(&blocked);
    int signals[] = {SIGUSR1, SIGUSR2, SIGALRM};
    for (int i = 0; i < 3; i++) {
        sigaction(signals[i], &(struct sigaction){.sa_handler = handler}, NULL);
        sigaddset(&blocked, signals[i]);
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    for (int way = 0; way < 4; way++) {
        one_way(way, 0);
        one_way(way, 1);
    }
    puts("each way to wait");
    return 0;
}
