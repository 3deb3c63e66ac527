// Functions of the program and code far from them, where just-in-time compilers ask for memory,
// call each other and return to each other, from several threads at once, while timers interrupt
// them and the far code is written anew and moves. What such a call costs is not a signal.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include "expect.h"

#define THREADS 4
#define ROUNDS 20000
#define PLACES 16
#define SIZE 4096

typedef long (*Function)(long);
// Calls `callee` with its argument plus `added`, and returns what that returns plus `added`.
typedef long (*Caller)(long, Function callee);

static atomic_long interruptions;
static unsigned char *places[PLACES];

static void interrupt(int signal) {
    (void)signal;
    atomic_fetch_add(&interruptions, 1);
}

__attribute__((noinline)) static long near_end(long x) { return x * 3; }
__attribute__((noinline)) static long near_other_end(long x) { return x * 5; }
// Called from near and from far: its return goes to either.
__attribute__((noinline)) static long near_caller(long x, Function callee) {
    return callee(x + 1) + 1;
}

static void write_caller(unsigned char *at, int added) {
    const unsigned char code[] = {
        0x48, 0x83, 0xec, 8,           // sub $8, %rsp
        0x48, 0x81, 0xc7, 0, 0, 0, 0,  // add $added, %rdi
        0xff, 0xd6,                    // call *%rsi
        0x48, 0x05, 0, 0, 0, 0,        // add $added, %rax
        0x48, 0x83, 0xc4, 8,           // add $8, %rsp
        0xc3,
    };
    memcpy(at, code, sizeof code);
    memcpy(at + 7, &added, 4);
    memcpy(at + 15, &added, 4);
}

// mov %rsi, %rax; xor %esi, %esi; jmp *%rax: from far to near or far without coming back.
static void write_jumper(unsigned char *at) {
    const unsigned char code[] = {0x48, 0x89, 0xf0, 0x31, 0xf6, 0xff, 0xe0};
    memcpy(at, code, sizeof code);
}

// lea (%rdi,%rdi,8), %rax; ret
static void write_end(unsigned char *at) {
    const unsigned char code[] = {0x48, 0x8d, 0x04, 0xff, 0xc3};
    memcpy(at, code, sizeof code);
}

static void fill(unsigned char *place, int added) {
    write_caller(place, added);
    write_jumper(place + 64);
    write_end(place + 128);
}

static void *cross(void *number) {
    uintptr_t state = (uintptr_t)number + 1;
    long calls = 0;
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int which = state >> 33 & (PLACES - 1);
        unsigned char *place = places[which];
        Caller caller = (Caller)(void *)place;
        Caller jumper = (Caller)(void *)(place + 64);
        Function far_end = (Function)(void *)(places[state >> 40 & (PLACES - 1)] + 128);
        Function end = state >> 50 & 1 ? near_end : near_other_end;
        long factor = end == near_end ? 3 : 5;
        EXPECT(near_caller(i, end) == factor * (i + 1) + 1);
        EXPECT(near_caller(i, far_end) == 9 * (i + 1) + 1);
        EXPECT(caller(i, end) == factor * (i + which) + which);
        EXPECT(caller(i, far_end) == 9 * (i + which) + which);
        EXPECT(jumper(i, end) == factor * i);
        EXPECT(jumper(i, far_end) == 9 * i);
        // The library's own functions return to far code too.
        EXPECT(caller(i - which, (Function)labs) == labs(i) + which);
        calls += 7;
    }
    return (void *)calls;
}

// Three times near the end of the address space, once where a table with eight bytes for each
// address would lie in it.
static unsigned char *map_far(int index) {
    static const uintptr_t bases[] = {0x7e0000000000, 0x3a5500000000, 0x150000000000,
                                      0x0a0000000000};
    uintptr_t wish = bases[index % 4] + (uintptr_t)index * 0x1234000;
    void *place = mmap((void *)wish, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    EXPECT(place == (void *)wish);
    return place;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    long calls = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, cross, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        EXPECT(pthread_join(threads[i], &result) == 0);
        calls += (long)result;
    }
    EXPECT(calls == 7L * THREADS * ROUNDS);
}

static long time_calls_ns(Function end) {
    struct timespec begin, stop;
    EXPECT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin) == 0);
    for (int i = 0; i < 500000; i++)
        EXPECT(near_caller(i, end) != 0);
    EXPECT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &stop) == 0);
    return (stop.tv_sec - begin.tv_sec) * 1000000000L + stop.tv_nsec - begin.tv_nsec;
}

// A call that crosses may cost more than one that does not, but not as much as a signal.
static void compare_costs(void) {
    long near = time_calls_ns(near_end);
    long far = time_calls_ns((Function)(void *)(places[1] + 128));
    if (far >= 40 * near)
        fprintf(stderr, "%ld ns near, %ld ns far\n", near, far);
    EXPECT(far < 40 * near);
}

int main(void) {
    for (int i = 0; i < PLACES; i++)
        fill(places[i] = map_far(i), i);
    compare_costs();
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {.it_interval = {0, 700}, .it_value = {0, 700}};
    EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
    run_threads();
    // Half of the code moves, and other code comes to where it was.
    for (int i = 0; i < PLACES; i += 2) {
        unsigned char *from = places[i], *to = from + 0x100000;
        EXPECT(mremap(from, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
        places[i] = to;
        EXPECT(mmap(from, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == from);
        fill(from, i + 100);
        EXPECT(near_caller(i, (Function)(void *)(from + 128)) == 9 * (i + 1) + 1);
        EXPECT(((Caller)(void *)from)(i, near_end) == 3 * (2 * i + 100) + i + 100);
    }
    run_threads();
    // And is written anew.
    for (int i = 0; i < 200; i++) {
        int added = i * 7;
        write_caller(places[3], added);
        EXPECT(((Caller)(void *)places[3])(i, near_end) == 3 * (i + added) + added);
    }
    struct itimerval never = {0};
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    EXPECT(atomic_load(&interruptions) > 0);
    puts("crossed");
    return 0;
}
