// Functions that are within each other in every way: deep in recursion, called from one place,
// on several stacks in turn, in handlers of signals, across forks, and left by longjmp. Says how
// many calls return and how many are left.
// flags: -O2 -g -fno-inline -pthread
// variants: static

#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define APART __attribute__((noinline, noipa))
#define TIMES 50

static atomic_long returned, left;

static long ends(long value) {
    atomic_fetch_add(&returned, 1);
    return value;
}

APART long leaf0(long a, long b) { return ends(a * 10 + b); }
APART long leaf1(long a, long b) { return ends(a * 10 + b); }
APART long leaf2(long a, long b) { return ends(a * 10 + b); }
APART long leaf3(long a, long b) { return ends(a * 10 + b); }
APART long leaf4(long a, long b) { return ends(a * 10 + b); }
APART long leaf5(long a, long b) { return ends(a * 10 + b); }

// More functions than one place is likely to expect.
static long (*const leaves[])(long, long) = {leaf0, leaf1, leaf2, leaf3, leaf4, leaf5};

APART long jumps(long a, long b) {
    ends(0);
    return leaf0(a + 1, b);
}

APART long deep(long depth, long b) {
    long below = depth == 0 ? b : deep(depth - 1, b + 1);
    __asm__ volatile("" : "+r"(below));
    return ends(below + 1);
}

// Overwrites what it was given, on the stack too.
APART long many(long a, long b, long c, long d, long e, long f, volatile long g, volatile long h) {
    long sum = a + b + c + d + e + f + g + h;
    g = h = -1;
    a = b = -1;
    __asm__ volatile("" : "+r"(a), "+r"(b) : : "rdi", "rsi", "rdx", "rcx", "r8", "r9");
    return ends(sum);
}

APART double real(double x, long a, float y) {
    double sum = x + (double)a + y;
    ends(0);
    __asm__ volatile("pxor %%xmm1, %%xmm1" : "+x"(sum) : : "xmm1");
    return sum;
}

static _Thread_local jmp_buf place;

APART void leap(void) { longjmp(place, 1); }

APART long leaps(long depth, long b) {
    atomic_fetch_add(&left, 1);
    long below = b;
    if (depth == 0)
        leap();
    else
        below = leaps(depth - 1, b);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

static volatile sig_atomic_t signals;

static void handle(int signal) {
    if (signal == SIGUSR1 || signals < TIMES)
        leaf1(signal, 1);
    if (signal == SIGALRM)
        signals = signals + 1;
}

APART long interrupted(long a, long b) {
    raise(SIGUSR1);
    return ends(a * 10 + b);
}

APART long forks(long a, long b) {
    pid_t child = fork();
    if (child > 0) {
        int status = 1;
        waitpid(child, &status, 0);
        return ends(status == 0 ? a * 10 + b : -1);
    }
    // What returns in the child counts there.
    return child == 0 ? -2 : -3;
}

// Two stacks that take turns in the middle of a function.
struct turns {
    ucontext_t main, other[2];
    long sum;
};

static _Thread_local struct turns turns;

APART long step(long which, long round) {
    leaf2(which, round);
    swapcontext(&turns.other[which], &turns.other[1 - which]);
    return ends(leaf3(which, round));
}

static void take_turns(int which) {
    for (long round = 0; round < 100; round++)
        turns.sum += step(which, round);
    // The other one has not ended its last round yet.
    if (which == 0)
        swapcontext(&turns.other[0], &turns.other[1]);
}

static void prepare(int which) {
    enum { SIZE = 256 << 10 };
    getcontext(&turns.other[which]);
    char *stack =
        mmap(NULL, SIZE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        abort();
    // Two mappings, not one.
    mprotect(stack + SIZE, 4096, PROT_NONE);
    turns.other[which].uc_stack.ss_sp = stack;
    turns.other[which].uc_stack.ss_size = SIZE;
    turns.other[which].uc_link = &turns.main;
    makecontext(&turns.other[which], (void (*)(void))take_turns, 1, which);
}

static long on_stacks(void) {
    prepare(0);
    prepare(1);
    swapcontext(&turns.main, &turns.other[0]);
    return turns.sum;
}

static void *all(void *argument) {
    stack_t alternate = {.ss_sp = malloc(64 << 10), .ss_size = 64 << 10};
    sigaltstack(&alternate, NULL);
    volatile long sum = 0;
    for (long i = 0; i < 600; i++)
        sum += leaves[i % 6](i, 1);
    sum += jumps(5, 6);
    sum += deep(3000, 1) + deep(10, 1);
    sum += many(1, 2, 3, 4, 5, 6, 7, 8);
    sum += (long)real(1.5, 2, 2.5f);
    for (long round = 0; round < 5; round++) {
        if (setjmp(place) == 0)
            leaps(round, 3);
        sum += leaf4(round, 4);
    }
    sum += interrupted(4, 2);
    sum += on_stacks();
    sum += leaf5(1, 2);
    if (argument == NULL) {
        struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &often, NULL);
        for (long i = 0; i < 20000; i++)
            sum += leaf0(i, 1) & 1;
        while (signals < TIMES)
            ;
        setitimer(ITIMER_REAL, &never, NULL);
    }
    return (void *)sum;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    void *theirs = NULL;
    pthread_t other;
    // So that the timer's signals are this thread's.
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    if (pthread_create(&other, NULL, all, &action) != 0)
        return 1;
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    pthread_join(other, &theirs);
    void *ours = all(NULL);
    long forked = forks(4, 2);
    if (forked == -2)
        _exit(leaf0(1, 1) == 11 ? 0 : 1);
    printf("%ld return, %ld are left\n", atomic_load(&returned), atomic_load(&left));
    return forked == 42 && (long)ours > (long)theirs ? 0 : 1;
}
