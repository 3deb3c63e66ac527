// Signals with handlers come to threads that wait in system calls, while a child in its parent's
// place holds the process: calls return EINTR, or go on where SA_RESTART asks for it.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

enum { PAUSES, READS, READS_ON, SLEEPS, SUSPENDS, COUNT };
static int ends[2], ends_on[2];
static atomic_int handled, over[COUNT];

static int signal_of(int number) { return SIGRTMIN + 1 + number; }

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void open_only(int number) {
    sigset_t open;
    sigemptyset(&open);
    sigaddset(&open, signal_of(number));
    pthread_sigmask(SIG_UNBLOCK, &open, NULL);
}

static void *pauses(void *unused) {
    open_only(PAUSES);
    EXPECT(pause() == -1 && errno == EINTR);
    over[PAUSES] = 1;
    return unused;
}

static void *reads(void *unused) {
    char byte;
    open_only(READS);
    EXPECT(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    over[READS] = 1;
    return unused;
}

static void *reads_on(void *unused) {
    char byte;
    open_only(READS_ON);
    EXPECT(read(ends_on[0], &byte, 1) == 1 && byte == 'x');
    over[READS_ON] = 1;
    return unused;
}

static void *sleeps(void *unused) {
    struct timespec wanted = {1000, 0}, left = {0, 0};
    open_only(SLEEPS);
    EXPECT(nanosleep(&wanted, &left) == -1 && errno == EINTR);
    EXPECT(left.tv_sec > 900 && left.tv_sec < 1000);
    over[SLEEPS] = 1;
    return unused;
}

static void *suspends(void *unused) {
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, signal_of(SUSPENDS));
    EXPECT(sigsuspend(&set) == -1 && errno == EINTR);
    over[SUSPENDS] = 1;
    return unused;
}

static int child(void *parent) {
    usleep(400000);
    for (int i = 0; i < COUNT; i++)
        kill(*(pid_t *)parent, signal_of(i));
    usleep(200000);
    _exit(0);
}

int main(void) {
    static char stack[1 << 16];
    void *(*const bodies[COUNT])(void *) = {pauses, reads, reads_on, sleeps, suspends};
    pthread_t threads[COUNT];
    EXPECT(pipe(ends) == 0 && pipe(ends_on) == 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < COUNT; i++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = i == READS_ON ? SA_RESTART : 0};
        EXPECT(sigaction(signal_of(i), &action, NULL) == 0);
        EXPECT(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    }
    usleep(300000);
    pid_t own = getpid();
    pid_t id = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &own);
    EXPECT(id > 0);
    EXPECT(waitpid(id, NULL, 0) == id);
    for (int round = 0; handled < COUNT && round < 2000; round++)
        usleep(5000);
    EXPECT(handled == COUNT);
    EXPECT(over[READS_ON] == 0);
    EXPECT(write(ends_on[1], "x", 1) == 1);
    for (int i = 0; i < COUNT; i++) {
        for (int round = 0; !over[i] && round < 2000; round++)
            usleep(5000);
        if (!over[i])
            fprintf(stderr, "call %d goes on\n", i);
        EXPECT(over[i]);
        pthread_join(threads[i], NULL);
    }
    puts("interrupted");
    return 0;
}
