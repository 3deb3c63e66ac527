// Signals of faults that are sent to the process while its first thread blocks them: they go to a
// thread that lets them through, waits for them or reads them, at once or later.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "awaiting.h"

static const int kinds[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
enum { KINDS = sizeof kinds / sizeof *kinds, ROUNDS = 20 };

static atomic_int handled, handler_thread, ready, stop;
static pid_t first;
static int current;
static sigset_t set;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    EXPECT(signal == current);
    EXPECT(information->si_code == SI_USER && information->si_pid == getpid());
    atomic_store(&handler_thread, (int)syscall(SYS_gettid));
    atomic_fetch_add(&handled, 1);
}

static void *runs(void *nothing) {
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    atomic_store(&ready, 1);
    while (!atomic_load(&stop))
        ;
    return nothing;
}

static void *suspends(void *nothing) {
    sigset_t none;
    sigemptyset(&none);
    atomic_store(&ready, 1);
    EXPECT(sigsuspend(&none) == -1);
    return nothing;
}

static void *polls(void *nothing) {
    sigset_t none;
    sigemptyset(&none);
    atomic_store(&ready, 1);
    EXPECT(ppoll(NULL, 0, NULL, &none) == -1);
    return nothing;
}

static void *waits(void *nothing) {
    siginfo_t information;
    atomic_store(&ready, 1);
    EXPECT(sigwaitinfo(&set, &information) == current);
    handler(current, &information, NULL);
    return nothing;
}

static void *reads(void *nothing) {
    struct signalfd_siginfo information;
    int file = signalfd(-1, &set, SFD_CLOEXEC);
    atomic_store(&ready, 1);
    EXPECT(read(file, &information, sizeof information) == sizeof information);
    EXPECT(information.ssi_signo == (unsigned)current && information.ssi_code == SI_USER);
    close(file);
    atomic_store(&handler_thread, (int)syscall(SYS_gettid));
    atomic_fetch_add(&handled, 1);
    return nothing;
}

static void *unblocks_later(void *nothing) {
    atomic_store(&ready, 1);
    while (!atomic_load(&stop))
        nanosleep(&(struct timespec){0, 100000}, NULL);
    EXPECT(is_pending(current));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    EXPECT(atomic_load(&handled) == 1 && !is_pending(current));
    return nothing;
}

// The child does not have what waits for its parent.
static void *forks_before(void *nothing) {
    atomic_store(&ready, 1);
    while (!atomic_load(&stop))
        nanosleep(&(struct timespec){0, 100000}, NULL);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        _exit(atomic_load(&handled));
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return nothing;
}

static void send_to(void *(*how)(void *), int comes_later) {
    atomic_store(&handled, 0);
    atomic_store(&ready, 0);
    atomic_store(&stop, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, how, NULL);
    await(&ready, 1);
    kill(getpid(), current);
    if (comes_later)
        EXPECT(atomic_load(&handled) == 0 && is_pending(current));
    else
        await(&handled, 1);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    EXPECT(atomic_load(&handled) == 1 && handler_thread != first && !is_pending(current));
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : ROUNDS;
    first = getpid();
    for (int kind = 0; kind < KINDS; kind++) {
        current = kinds[kind];
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        sigaction(current, &action, NULL);
        sigemptyset(&set);
        sigaddset(&set, current);
        sigprocmask(SIG_BLOCK, &set, NULL);
        for (int round = 0; round < rounds; round++) {
            send_to(runs, 0);
            send_to(suspends, 0);
            send_to(polls, 0);
            send_to(waits, 0);
            send_to(unblocks_later, 1);
        }
        send_to(forks_before, 1);
        send_to(reads, 0);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    puts("each came to the thread that would have it");
    return 0;
}
