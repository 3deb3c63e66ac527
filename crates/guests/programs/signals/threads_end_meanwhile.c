// A signal to the process comes just when the only thread that lets it through ends: it waits for
// the next one. As many are handled as are sent. So it is with signals of faults.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"

static atomic_long handled;
static timer_t timer;
static sigset_t set;
static int current;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void *ends(void *delay) {
    struct itimerspec once = {.it_value.tv_nsec = (long)delay};
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    timer_settime(timer, 0, &once, NULL);
    // Without the C library, which blocks all signals before a thread ends.
    syscall(SYS_exit, 0);
    return NULL;
}

static void *drains(void *nothing) {
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return nothing;
}

static void run(void *(*start)(void *), long delay) {
    pthread_t thread;
    pthread_create(&thread, NULL, start, (void *)delay);
    // Meanwhile this thread waits for something else, and blocks the signal.
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    EXPECT(sigtimedwait(&other, NULL, &(struct timespec){0, 500000}) == -1 && errno == EAGAIN);
    pthread_join(thread, NULL);
}

static int is_pending(void) {
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, current);
}

static void send_to_ending_threads(int signal, long threads) {
    current = signal;
    atomic_store(&handled, 0);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaction(signal, &(struct sigaction){.sa_handler = handler}, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    for (long thread = 1; thread <= threads; thread++) {
        run(ends, 1 + thread * 7919 % 30000);
        // It is handled or pending soon, however busy the machine is.
        for (int rounds = 0; atomic_load(&handled) < thread && !is_pending(); rounds++) {
            EXPECT(rounds < 3000);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        if (atomic_load(&handled) < thread)
            run(drains, 0);
        EXPECT(atomic_load(&handled) == thread);
    }
    timer_delete(timer);
    printf("handled %ld of %ld\n", atomic_load(&handled), threads);
}

int main(int count, char **arguments) {
    long threads = count > 1 ? atol(arguments[1]) : 700;
    send_to_ending_threads(SIGRTMIN + 1, threads);
    send_to_ending_threads(SIGTRAP, threads);
    return 0;
}
