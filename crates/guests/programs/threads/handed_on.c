// Threads take steps one after the other: each begins when the one before it has been handed on, by
// locks, condition variables, semaphores, atomic operations, futexes, creation and joins, while
// signals come.
// flags: -O1 -D_GNU_SOURCE -pthread
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "expect.h"

enum { THREADS = 3, ROUNDS = 40, TURNS = THREADS * ROUNDS };

static long step;
static long interruptions;

__attribute__((noinline)) void passes(long number) { __asm__ volatile("" : : "r"(number) : "memory"); }

static void next(void) { passes(step++); }

static void interrupted(int signal)
{
    (void)signal;
    __atomic_add_fetch(&interruptions, 1, __ATOMIC_SEQ_CST);
}

// Whose turn it is, each means by its own rules.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static sem_t turns[THREADS];
static long turn;
static int word;

static void by_lock(long own)
{
    for (int done = 0; !done; sched_yield()) {
        pthread_mutex_lock(&lock);
        if (turn == own) {
            next();
            turn++;
            done = 1;
        }
        pthread_mutex_unlock(&lock);
    }
}

static void by_condition(long own)
{
    pthread_mutex_lock(&lock);
    while (turn != own)
        pthread_cond_wait(&changed, &lock);
    next();
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void by_lock_of_readers(long own)
{
    for (;; sched_yield()) {
        pthread_rwlock_rdlock(&shared);
        int is_own = turn == own;
        pthread_rwlock_unlock(&shared);
        if (is_own)
            break;
    }
    next();
    pthread_rwlock_wrlock(&shared);
    turn++;
    pthread_rwlock_unlock(&shared);
}

static void by_semaphore(long own)
{
    while (sem_wait(&turns[own % THREADS]))
        ;
    next();
    sem_post(&turns[(own + 1) % THREADS]);
}

static void by_atomics(long own)
{
    long expected = own;
    while (!__atomic_compare_exchange_n(&turn, &expected, own, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
        expected = own;
        sched_yield();
    }
    next();
    __atomic_exchange_n(&turn, own + 1, __ATOMIC_SEQ_CST);
}

// The word is looked at by the kernel, or by an atomic operation.
static void by_futex(long own)
{
    for (;;) {
        int now = __atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
        if (now == own)
            break;
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, now, 0, 0, 0);
    }
    next();
    __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, THREADS, 0, 0, 0);
}

static void (*const MEANS[])(long) = {by_lock,      by_condition, by_lock_of_readers,
                                      by_semaphore, by_atomics,   by_futex};
static int means;

static void *takes_turns(void *number)
{
    for (long own = (long)number; own < TURNS; own += THREADS)
        MEANS[means](own);
    return 0;
}

static void *takes_a_step(void *unused)
{
    next();
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = interrupted, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (means = 0; means < (int)(sizeof MEANS / sizeof *MEANS); means++) {
        pthread_t threads[THREADS];
        turn = word = 0;
        for (int i = 0; i < THREADS; i++)
            sem_init(&turns[i], 0, i == 0);
        next();
        for (long i = 0; i < THREADS; i++)
            EXPECT(pthread_create(&threads[i], 0, takes_turns, (void *)i) == 0);
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_join(threads[i], 0) == 0);
        next();
    }
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, 0, takes_a_step, 0) == 0);
        // Every other one has ended when it is joined.
        if (i % 2)
            usleep(3000);
        EXPECT(pthread_join(thread, 0) == 0);
        next();
    }
    setitimer(ITIMER_REAL, &never, 0);
    printf("%ld steps\n", step);
    return 0;
}
