// Uses all signals and waits for them in many ways, while threads of it use CPU time: none comes
// that nobody has sent, no call is interrupted, and no handler is lost. It closes all descriptors.
// flags: -O2 -pthread

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            dprintf(saved_error, "line %d: %s (%s)\n", __LINE__, #what, strerror(errno));          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static int saved_error = 2;
static volatile int is_done;
static volatile sig_atomic_t counts[65];

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void burn(double seconds) {
    double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds;
    volatile double value = 1;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 2000; i++)
            value = value * 1.0000001;
}

static void count(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(info->si_code != SI_TIMER && info->si_pid == getpid());
    counts[signal]++;
    errno = 12345;
}

static void *busy_with_all_signals_blocked(void *unused) {
    sigset_t all, kept;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    burn(0.2);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &kept) == 0);
    CHECK(sigismember(&kept, SIGUSR1) && sigismember(&kept, SIGRTMIN));
    return unused;
}

static int c11_thread(void *unused) {
    (void)unused;
    burn(0.05);
    return 7;
}

static ucontext_t outside, inside;

static void on_a_small_stack(void) {
    for (int round = 0; round < 100; round++) {
        burn(0.001);
        swapcontext(&inside, &outside);
    }
}

// Each of these waits for 2 ms: what is cut short would end early or fail.
static void wait_in_all_ways(void) {
    struct timespec time = {0, 2000000}, deadline;
    double start = now(CLOCK_MONOTONIC);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    struct timeval interval = {0, 2000};
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    CHECK(nanosleep(&time, NULL) == 0);
    burn(0.0005);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == 0);
    CHECK(usleep(2000) == 0);
    CHECK(poll(NULL, 0, 2) == 0);
    burn(0.0005);
    CHECK(ppoll(NULL, 0, &time, &none) == 0);
    CHECK(select(0, NULL, NULL, NULL, &interval) == 0);
    CHECK(pselect(0, NULL, NULL, NULL, &time, &none) == 0);
    burn(0.0005);
    CHECK(epoll_wait(epoll, &event, 1, 2) == 0);
    CHECK(epoll_pwait(epoll, &event, 1, 2, &none) == 0);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 2000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    CHECK(sem_timedwait(&semaphore, &deadline) == -1 && errno == ETIMEDOUT);
    CHECK(sigtimedwait(&all, NULL, &time) == -1 && errno == EAGAIN);
    CHECK(now(CLOCK_MONOTONIC) - start > 0.021);
    close(epoll);
}

int main(void) {
    struct sigaction action = {0}, old;
    action.sa_sigaction = count;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (signal == SIGKILL || signal == SIGSTOP || signal == SIGCHLD || (signal >= 32 && signal < SIGRTMIN))
            continue;
        CHECK(sigaction(signal, &action, NULL) == 0);
        CHECK(sigaction(signal, NULL, &old) == 0);
        CHECK(old.sa_sigaction == count && (old.sa_flags & SA_SIGINFO));
    }
    pthread_t busy;
    CHECK(pthread_create(&busy, NULL, busy_with_all_signals_blocked, NULL) == 0);
    for (int round = 0; round < 20; round++)
        wait_in_all_ways();
    CHECK(pthread_join(busy, NULL) == 0);
    thrd_t thread;
    int result = 0;
    CHECK(thrd_create(&thread, c11_thread, NULL) == thrd_success);
    CHECK(thrd_join(thread, &result) == thrd_success && result == 7);

    char *stack = malloc(65536);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = 65536;
    inside.uc_link = &outside;
    makecontext(&inside, on_a_small_stack, 0);
    for (int round = 0; round < 100; round++)
        swapcontext(&outside, &inside);

    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) {
        errno = 0;
        raise(signal);
        CHECK(counts[signal] == 1);
    }
    for (int signal = 1; signal < SIGRTMIN; signal++)
        CHECK(counts[signal] == 0);

    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            burn(0.05);
            _exit(round);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == round);
    }
    saved_error = dup2(2, 200);
    close_range(0, 199, 0);
    burn(0.1);
    return 0;
}
