// Waits by functions that have other names than the usual ones, as programs that are compiled with
// _FORTIFY_SOURCE call them, by older ones, and at sockets with a timeout: none is cut short by a
// signal that nobody has sent.
// flags: -O2 -pthread

#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            dprintf(2, "line %d: %s (%s)\n", __LINE__, #what, strerror(errno));                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

// What headers declare only where the compiler is to check sizes, or not at all.
int __poll(struct pollfd *, nfds_t, int);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);
int __nanosleep(const struct timespec *, struct timespec *);
int __sigsuspend(const sigset_t *);
int __sigpause(int, int);
int __xpg_sigpause(int);
ssize_t __read(int, void *, size_t);
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
ssize_t __send(int, const void *, size_t, int);
ssize_t __write(int, const void *, size_t);

static volatile sig_atomic_t alarms;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void wait_by_other_names(void) {
    struct timespec time = {0, 2000000};
    struct timeval interval = {0, 2000};
    struct pollfd none[1];
    sigset_t empty;
    sigemptyset(&empty);
    double start = now();
    CHECK(__poll_chk(none, 0, 2, sizeof none) == 0);
    CHECK(__ppoll_chk(none, 0, &time, &empty, sizeof none) == 0);
    CHECK(__ppoll_chk(none, 0, &time, NULL, sizeof none) == 0);
    CHECK(__poll(none, 0, 2) == 0);
    CHECK(__select(0, NULL, NULL, NULL, &interval) == 0);
    CHECK(__nanosleep(&time, NULL) == 0);
    CHECK(now() - start > 0.011);
}

// The signal that is waited for comes in 2 ms, and is kept away but for the waits.
static void wait_for_a_signal(void) {
    sigset_t empty;
    sigemptyset(&empty);
    for (int way = 0; way < 4; way++) {
        struct itimerval once = {{0, 0}, {0, 2000}};
        int before = alarms;
        CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
        int result = way == 0   ? __sigsuspend(&empty)
                     : way == 1 ? __sigpause(0, 0)
                     : way == 2 ? __sigpause(SIGALRM, 1)
                                : __xpg_sigpause(SIGALRM);
        CHECK(result == -1 && errno == EINTR);
        CHECK(alarms == before + 1);
    }
}

static void set_timeouts(int socket) {
    struct timeval interval = {0, 2000};
    CHECK(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &interval, sizeof interval) == 0);
    CHECK(setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &interval, sizeof interval) == 0);
}

#define NOTHING_COMES(call)                                                                       \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == -1 && errno == EAGAIN);                                                    \
    } while (0)

static void wait_at_sockets(void) {
    int ends[2];
    char bytes[4096] = {0};
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr messages[1] = {{.msg_hdr = message}};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    set_timeouts(ends[0]);
    int socket_ = ends[0];
    NOTHING_COMES(recv(socket_, bytes, 1, 0));
    NOTHING_COMES(recvfrom(socket_, bytes, 1, 0, NULL, NULL));
    NOTHING_COMES(recvmsg(socket_, &message, 0));
    NOTHING_COMES(recvmmsg(socket_, messages, 1, 0, NULL));
    NOTHING_COMES(read(socket_, bytes, 1));
    NOTHING_COMES(readv(socket_, &part, 1));
    NOTHING_COMES(__read(socket_, bytes, 1));
    NOTHING_COMES(__read_chk(socket_, bytes, 1, sizeof bytes));
    NOTHING_COMES(__recv_chk(socket_, bytes, 1, sizeof bytes, 0));
    NOTHING_COMES(__recvfrom_chk(socket_, bytes, 1, sizeof bytes, 0, NULL, NULL));
    while (send(socket_, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    NOTHING_COMES(send(socket_, bytes, sizeof bytes, 0));
    NOTHING_COMES(__send(socket_, bytes, sizeof bytes, 0));
    NOTHING_COMES(sendto(socket_, bytes, sizeof bytes, 0, NULL, 0));
    NOTHING_COMES(sendmsg(socket_, &message, 0));
    NOTHING_COMES(sendmmsg(socket_, messages, 1, 0));
    NOTHING_COMES(write(socket_, bytes, sizeof bytes));
    NOTHING_COMES(__write(socket_, bytes, sizeof bytes));
    NOTHING_COMES(writev(socket_, &part, 1));
    close(ends[0]);
    close(ends[1]);

    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&any, sizeof(sa_family_t)) == 0);
    CHECK(listen(listener, 1) == 0);
    set_timeouts(listener);
    NOTHING_COMES(accept(listener, NULL, NULL));
    NOTHING_COMES(accept4(listener, NULL, NULL, 0));
    close(listener);
}

static void wait_for_input(void) {
    int ends[2];
    char byte = 0;
    struct timespec time = {0, 2000000};
    CHECK(pipe(ends) == 0);
    struct aiocb request = {.aio_fildes = ends[0], .aio_buf = &byte, .aio_nbytes = 1};
    const struct aiocb *list[1] = {&request};
    CHECK(aio_read(&request) == 0);
    NOTHING_COMES(aio_suspend(list, 1, &time));
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(aio_suspend(list, 1, NULL) == 0 && byte == 'x');
    close(ends[0]);
    close(ends[1]);
}

int main(void) {
    sigset_t alarm;
    signal(SIGALRM, on_alarm);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &alarm, NULL) == 0);
    for (int round = 0; round < 10; round++) {
        wait_by_other_names();
        wait_for_a_signal();
        wait_for_input();
        wait_at_sockets();
    }
    return 0;
}
