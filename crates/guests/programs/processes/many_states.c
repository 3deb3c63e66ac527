// Threads in every state for a while: they compute, wait in read, futex, nanosleep and sigwait, are
// in handlers, get real-time signals that are counted at both ends, under a storm of timers, while
// others fork and move the break. An argument says for how many milliseconds, a second one names a
// file that is made when all threads are there, and whose removal ends it before.
// flags: -O2 -pthread
// compare: status
#define _GNU_SOURCE
#include "expect.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static volatile int over;
static int pipe_ends[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn, turns_taken, bytes_read, alarms;
static volatile long handled, handled_sum, waited, waited_sum;
static __thread char alternate[1 << 16];
static __thread long own;

static long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void on_alarm(int signal) {
    (void)signal;
    __atomic_add_fetch(&alarms, 1, __ATOMIC_RELAXED);
}

static void on_queued(int signal, siginfo_t *info, void *context) {
    char here;
    (void)context;
    EXPECT(signal == SIGRTMIN + 3 && info->si_code == SI_QUEUE);
    EXPECT(&here > alternate && &here < alternate + sizeof alternate);
    for (volatile int round = 0; round < 20000; round++)
        ;
    handled_sum += info->si_value.sival_int;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELEASE);
}

static void *compute(void *seed) {
    own = (long)seed;
    while (!over) {
        double sums[2] = {0, 0};
        for (int time = 0; time < 2; time++)
            for (volatile int round = 1; round < 30000; round++)
                sums[time] += 1.0 / (round + own);
        EXPECT(sums[0] == sums[1] && sums[0] > 1 && own == (long)seed);
    }
    return NULL;
}

static void *read_bytes(void *unused) {
    char byte;
    while (read(pipe_ends[0], &byte, 1) == 1) {
        EXPECT(byte == (char)bytes_read);
        bytes_read++;
    }
    return unused;
}

static void *take_turns(void *unused) {
    pthread_mutex_lock(&lock);
    while (turn >= 0) {
        if (turn > turns_taken)
            turns_taken = turn;
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *nap(void *unused) {
    while (!over) {
        struct timespec time = {.tv_nsec = 15000000};
        long before = now_us();
        while (nanosleep(&time, &time) != 0)
            EXPECT(errno == EINTR);
        EXPECT(now_us() - before >= 15000);
    }
    return unused;
}

static void *wait_for_signals(void *count) {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    while (!over || waited < *(volatile long *)count) {
        struct timespec time = {.tv_nsec = 30000000};
        if (sigtimedwait(&set, &info, &time) > 0) {
            waited_sum += info.si_value.sival_int;
            waited++;
        } else {
            EXPECT(errno == EAGAIN || errno == EINTR);
        }
    }
    return count;
}

static void *be_interrupted(void *count) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigset_t set;
    EXPECT(sigaltstack(&stack, NULL) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    while (!over || __atomic_load_n(&handled, __ATOMIC_ACQUIRE) < *(volatile long *)count)
        usleep(300);
    return count;
}

static void *fork_children(void *unused) {
    for (int number = 0; !over; number++) {
        int status;
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            volatile long sum = 0;
            for (int round = 0; round < 1000; round++)
                sum += round;
            _exit(sum == 499500 ? number & 63 : 99);
        }
        while (waitpid(child, &status, 0) != child)
            EXPECT(errno == EINTR);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == (number & 63));
        usleep(500);
    }
    return unused;
}

static void *die_with_lock(void *mutex) {
    EXPECT(pthread_mutex_lock(mutex) == 0);
    return NULL;
}

static void lose_a_lock(void) {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &robust);
    EXPECT(pthread_create(&thread, NULL, die_with_lock, &mutex) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(pthread_mutex_lock(&mutex) == EOWNERDEAD);
}

int main(int count, char **words) {
    long end = now_us() + (count > 1 ? atol(words[1]) : 200) * 1000;
    static volatile long queued, queued_sum;
    pthread_t threads[9];
    sigset_t set;
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction queue = {.sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct itimerval storm = {{0, 1000}, {0, 1000}};

    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    sigaddset(&set, SIGRTMIN + 3);
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    EXPECT(sigaction(SIGALRM, &alarm, NULL) == 0 && sigaction(SIGRTMIN + 3, &queue, NULL) == 0);
    EXPECT(pipe(pipe_ends) == 0);
    EXPECT(pthread_create(&threads[0], NULL, compute, (void *)17) == 0);
    EXPECT(pthread_create(&threads[1], NULL, compute, (void *)23) == 0);
    EXPECT(pthread_create(&threads[2], NULL, read_bytes, NULL) == 0);
    EXPECT(pthread_create(&threads[3], NULL, take_turns, NULL) == 0);
    EXPECT(pthread_create(&threads[4], NULL, nap, NULL) == 0);
    EXPECT(pthread_create(&threads[5], NULL, wait_for_signals, (void *)&queued) == 0);
    EXPECT(pthread_create(&threads[6], NULL, be_interrupted, (void *)&queued) == 0);
    EXPECT(pthread_create(&threads[7], NULL, fork_children, NULL) == 0);
    EXPECT(setitimer(ITIMER_REAL, &storm, NULL) == 0);

    const char *file = count > 2 ? words[2] : NULL;
    if (file)
        close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    long written = 0;
    while (now_us() < end && (!file || access(file, F_OK) == 0)) {
        char byte = (char)written;
        ssize_t result = write(pipe_ends[1], &byte, 1);
        EXPECT(result == 1 || (result < 0 && errno == EINTR));
        written += result == 1;
        pthread_mutex_lock(&lock);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        // No more on their way than the kernel queues.
        if (queued - waited < 50 && queued - handled < 50) {
            union sigval value = {.sival_int = (int)(queued % 1000)};
            EXPECT(pthread_sigqueue(threads[6], SIGRTMIN + 3, value) == 0);
            EXPECT(sigqueue(getpid(), SIGRTMIN + 2, value) == 0);
            queued_sum += value.sival_int;
            queued++;
        }
        char *block = sbrk(12000);
        EXPECT(block != (char *)-1);
        memset(block, 5, 12000);
        EXPECT(sbrk(-12000) == block + 12000);
        if (written % 8 == 0)
            lose_a_lock();
    }
    over = 1;
    memset(&storm, 0, sizeof storm);
    EXPECT(setitimer(ITIMER_REAL, &storm, NULL) == 0);
    close(pipe_ends[1]);
    pthread_mutex_lock(&lock);
    long last = turn;
    turn = -1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int number = 0; number < 8; number++)
        EXPECT(pthread_join(threads[number], NULL) == 0);
    EXPECT(bytes_read == written && turns_taken <= last);
    EXPECT(waited == queued && waited_sum == queued_sum);
    EXPECT(handled == queued && handled_sum == queued_sum);
    puts("all states");
    return 0;
}
