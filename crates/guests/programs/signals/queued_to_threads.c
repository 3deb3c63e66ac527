// Signals of faults that are queued for one thread, or come from a timer for one, are that
// thread's, and wait for it while it blocks them, although others let them through. Of one kind
// one waits for the thread and one for the process.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "awaiting.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static const int kinds[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGUSR1};
enum { KINDS = sizeof kinds / sizeof *kinds, VALUE = 7 };

static int current;
static atomic_int told, handled, handlers_thread, value, code;
static sigset_t set;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    EXPECT(signal == current);
    handlers_thread = (int)syscall(SYS_gettid);
    value = information->si_value.sival_int;
    code = information->si_code;
    atomic_fetch_add(&handled, 1);
}

static void await_pending(void) {
    for (int rounds = 0; !is_pending(current); rounds++) {
        EXPECT(rounds < 20000);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

// It blocks the signal, finds it pending, and has it when it lets it through.
static void *unblocks(void *nothing) {
    await_pending();
    // A call with a mask of its own, of which the signal is no part.
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    EXPECT(sigtimedwait(&other, NULL, &(struct timespec){0, 2000000}) == -1 && errno == EAGAIN);
    EXPECT(is_pending(current) && handled == 0);
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    EXPECT(handled == 1 && handlers_thread == (int)syscall(SYS_gettid) && !is_pending(current));
    return nothing;
}

static void *waits(void *nothing) {
    siginfo_t information;
    EXPECT(sigwaitinfo(&set, &information) == current);
    EXPECT(information.si_value.sival_int == VALUE && information.si_code == SI_QUEUE);
    return nothing;
}

static void *suspends(void *nothing) {
    sigset_t none;
    sigemptyset(&none);
    EXPECT(sigsuspend(&none) == -1 && errno == EINTR && handled == 1);
    return nothing;
}

static void *reads(void *nothing) {
    struct signalfd_siginfo information;
    int file = signalfd(-1, &set, SFD_CLOEXEC);
    await_pending();
    EXPECT(read(file, &information, sizeof information) == sizeof information);
    EXPECT(information.ssi_int == VALUE && information.ssi_code == SI_QUEUE && !is_pending(current));
    close(file);
    return nothing;
}

// What comes while it lets it through comes at once.
static void *sleeps(void *nothing) {
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    atomic_store(&told, 1);
    while (handled == 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    EXPECT(handlers_thread == (int)syscall(SYS_gettid));
    return nothing;
}

// A timer that is for the thread alone.
static void *sets_a_timer(void *nothing) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = current};
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    struct itimerspec once = {.it_value.tv_nsec = 1000000};
    timer_t timer;
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    EXPECT(timer_settime(timer, 0, &once, NULL) == 0);
    await_pending();
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    unblocks(nothing);
    EXPECT(code == SI_TIMER && timer_delete(timer) == 0);
    return nothing;
}

static void run(void *(*thread)(void *), int is_sent) {
    handled = told = 0;
    // New threads block it, this one does not.
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t started;
    EXPECT(pthread_create(&started, NULL, thread, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    if (thread == sleeps)
        await(&told, 1);
    if (is_sent)
        EXPECT(pthread_sigqueue(started, current, (union sigval){.sival_int = VALUE}) == 0);
    EXPECT(pthread_join(started, NULL) == 0);
    EXPECT(handled <= 1 && (handled == 0 || handlers_thread != getpid()));
}

// One is sent to the thread and one to the process, twice each, while all threads block them.
static void both(int queued) {
    handled = 0;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int time = 0; time < 2; time++) {
        if (queued)
            EXPECT(pthread_sigqueue(pthread_self(), current, (union sigval){.sival_int = VALUE}) == 0);
        else
            EXPECT(pthread_kill(pthread_self(), current) == 0);
        EXPECT(kill(getpid(), current) == 0);
    }
    EXPECT(is_pending(current));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    EXPECT(handled == 2 && !is_pending(current));
}

static void *keeps_blocking(void *nothing) {
    while (!atomic_load(&told))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return nothing;
}

static void both_beside_another(void) {
    pthread_t other;
    told = 0;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    EXPECT(pthread_create(&other, NULL, keeps_blocking, NULL) == 0);
    both(0);
    both(1);
    atomic_store(&told, 1);
    EXPECT(pthread_join(other, NULL) == 0);
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 5;
    for (int kind = 0; kind < KINDS; kind++) {
        current = kinds[kind];
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        sigaction(current, &action, NULL);
        sigemptyset(&set);
        sigaddset(&set, current);
        for (int round = 0; round < rounds; round++) {
            run(unblocks, 1);
            run(waits, 1);
            run(suspends, 1);
            run(reads, 1);
            run(sleeps, 1);
            run(sets_a_timer, 0);
            both(0);
            both(1);
            both_beside_another();
        }
    }
    puts("each had its own");
    return 0;
}
