// Instructions before and behind which it is known what the flags, MXCSR, the base of FS and the caller
// are, in two threads, while a timer ticks. It tells for each the kind of value, how often, and the sum
// of the values, each times its number.
// flags: -O1 -no-pie -fno-pie -mno-red-zone -fcf-protection=none -fno-stack-protector
// libraries: -pthread
// compare: status
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ROUNDS 1000
// The status flags and the direction flag.
#define SHOWN 0xcd5

struct told {
    const char *pc;
    char kind;
    uint64_t times, sum;
};

static __thread struct told all[32];

static void tell(const char *pc, char kind, uint64_t value)
{
    struct told *told = all;
    while (told->pc && (told->pc != pc || told->kind != kind))
        told++;
    told->pc = pc;
    told->kind = kind;
    told->sum += ++told->times * value;
}

#define AT(name) #name "_at:\n\t"
#define PLACE(name) ({ extern const char name##_at[]; name##_at; })

// The flags that an instruction leaves, of these operands.
#define FLAGS_OF(code, left, right)                                                    \
    ({                                                                                 \
        uint64_t flags_, left_ = (left);                                               \
        __asm__ volatile(code "\n\tpushfq\n\tpop %0"                                   \
                         : "=&r"(flags_), "+&r"(left_)                                 \
                         : "r"(right)                                                  \
                         : "cc");                                                      \
        flags_ & SHOWN;                                                                \
    })

__attribute__((noinline)) static void flags(uint64_t left, uint64_t right)
{
    uint64_t same = left;
    // Flags that the next instruction overwrites, before anybody reads them.
    tell(PLACE(dead), 'b', FLAGS_OF("add %2, %1", left, right));
    __asm__ volatile("add %1, %0\n\t" AT(dead) "xor %%eax, %%eax" : "+r"(same) : "r"(right) : "rax", "cc");
    same = left;
    tell(PLACE(subtracted), 'a', FLAGS_OF("sub %2, %1", left, right));
    // Behind the instruction, and all of them dead.
    __asm__ volatile(AT(subtracted) "sub %1, %0\n\ttest %0, %0" : "+r"(same) : "r"(right) : "cc");
    same = left;
    tell(PLACE(compared), 'b', FLAGS_OF("cmp %2, %1", left, right));
    __asm__ volatile("cmp %1, %0\n\t" AT(compared) "jbe 1f\n\tnop\n1:" : : "r"(left), "r"(right) : "cc");
    // Those that an instruction leaves alone.
    tell(PLACE(moved), 'a', FLAGS_OF("cmp %2, %1", left, right));
    __asm__ volatile("cmp %1, %0\n\t" AT(moved) "mov %0, %%rax" : : "r"(left), "r"(right) : "rax", "cc");
    uint64_t downwards = FLAGS_OF("std\n\tadd %2, %1", left, right);
    __asm__ volatile("cld");
    tell(PLACE(downwards), 'b', downwards);
    __asm__ volatile("std\n\tadd %1, %0\n\t" AT(downwards) "cld" : "+r"(same) : "r"(right) : "cc");
    // Across a jump, behind which they are dead.
    tell(PLACE(jumped), 'b', FLAGS_OF("cmp %2, %1", left, right));
    __asm__ volatile("cmp %1, %0\n\tjmp 1f\n\tud2\n1:\n\t" AT(jumped) "xor %%eax, %%eax"
                     : : "r"(left), "r"(right) : "rax", "cc");
}

__attribute__((noinline)) static void control(unsigned round)
{
    unsigned before, changed = 0x1f80 | (round & 3) << 13;
    __asm__ volatile("stmxcsr %0" : "=m"(before));
    tell(PLACE(controlled), 'm', changed);
    __asm__ volatile("ldmxcsr %0\n\t" AT(controlled) "nop\n\tldmxcsr %1" : : "m"(changed), "m"(before));
    tell(PLACE(controlled), 's', (uintptr_t)__builtin_thread_pointer());
}

__attribute__((noinline)) static void operands(const char *at)
{
    tell(PLACE(with), 'o', (uintptr_t)at + 3);
    tell(PLACE(without), 'o', 7);
    __asm__ volatile(AT(with) "mov 3(%0), %%al\n\t" AT(without) "mov %%eax, %%ecx" : : "r"(at) : "rax", "rcx");
}

uint64_t called(void);
__asm__(".text\ncalled:\n\t" AT(called) "mov (%rsp), %rax\n\t" AT(returning) "ret");

__attribute__((noinline)) static void callers(void)
{
    for (int twice = 0; twice < 2; twice++) {
        uint64_t caller = called();
        tell(PLACE(called), 'c', caller);
        tell(PLACE(returning), 'c', caller);
    }
    uint64_t caller = called();
    tell(PLACE(called), 'c', caller);
    tell(PLACE(returning), 'c', caller);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void *rounds(void *seed)
{
    uint64_t left = (uintptr_t)seed, right = 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        left = left * 6364136223846793005 + 1442695040888963407;
        right = (right ^ left >> 29) * 0xbf58476d1ce4e5b9;
        flags(left, round % 5 ? right : left);
        control(round);
        operands((char *)all + round % 50);
        callers();
    }
    pthread_mutex_lock(&lock);
    for (struct told *told = all; told->pc; told++)
        printf("%lx %c %lu %lx\n", (unsigned long)told->pc, told->kind, told->times, told->sum);
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_REAL, &often, 0);
    pthread_t thread;
    pthread_create(&thread, 0, rounds, (void *)2);
    rounds((void *)1);
    pthread_join(thread, 0);
    while (!ticks)
        pause();
    struct itimerval never = {0};
    setitimer(ITIMER_REAL, &never, 0);
    return 0;
}
