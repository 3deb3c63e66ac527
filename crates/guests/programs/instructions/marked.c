// Instructions behind markers (a no-operation with a number), executed by two threads while a
// timer ticks. At the end it tells for each marker how often it was passed, and the sum of the
// values that an observer can see there; and what an observer may have changed, which is nothing.
// flags: -O1 -mno-red-zone -fcf-protection=none -fno-stack-protector
// libraries: -pthread
// compare: status
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define MARKERS 32
#define ROUNDS 3000
// nopl number(%rax)
#define MARK(number) ".byte 0x0f, 0x1f, 0x80\n\t.long 0x7a500000 + " #number "\n\t"

struct told {
    uint64_t times, sum;
    int64_t changed;
};

static struct told all[MARKERS];
static char table[64];
static char other[64];

static void tell(struct told *told, int number, int count, ...)
{
    va_list values;
    va_start(values, count);
    told[number].times++;
    for (int i = 1; i <= count; i++)
        told[number].sum += va_arg(values, uint64_t) * i;
    va_end(values);
}

static uint64_t bits(double number)
{
    uint64_t word;
    memcpy(&word, &number, 8);
    return word;
}

static uint64_t single_bits(float number)
{
    uint32_t word;
    memcpy(&word, &number, 4);
    return word;
}

void first_target(void);
void second_target(void);
double callee(long a, long b, long c, long d, long e, long f, long g, long h, double x, float y);
__asm__(
    ".text\n"
    "first_target:\n\t" MARK(6) "ret\n"
    "second_target:\n\t nop\n\t jmp first_target\n"
    "adds:\n\t add $1, %rbx\n\t ret\n"
    "adds_more:\n\t add $1, %rbx\n\t" MARK(25) "ret\n\t add $10, %rbx\n\t ret\n"
    "callee:\n\t" MARK(10) "nop\n\t mov 8(%rsp), %rax\n\t" MARK(11) "ret\n");

static void registers(struct told *told, uint64_t i)
{
    uint64_t a = i * 7, c = i + 3, d = i * 5, b = i;
    register uint64_t r8 __asm__("r8") = i ^ 9;
    register uint64_t r9 __asm__("r9") = i % 11;
    __asm__ volatile(MARK(1) "nop" : : "a"(a), "c"(c), "d"(d), "r"(r8), "r"(r9));
    tell(told, 1, 10, c + r8, d + r9, r9 + c, d * 2 + r8, d + c * 4 + 5, r9, a, c, 0x123456789a, r8);

    __asm__ volatile(MARK(2) "nop" : "+b"(b), "+d"(d));
    told[2].changed += (int64_t)(b - i) * 1000 + (int64_t)(d - i * 5);
    uint64_t before, after;
    __asm__ volatile("mov %%rsp, %0\n\t" MARK(21) "nop\n\tmov %%rsp, %1\n\tmov %0, %%rsp"
                     : "=&r"(before), "=&r"(after));
    told[21].changed += (int64_t)(before - after);

    __asm__ volatile(MARK(13) "nop" : : "a"(i));
    if (i & 1)
        tell(told, 13, 1, i);
    __asm__ volatile(MARK(14) "movb %%al, (%0)" : : "r"(table + i % 64), "a"(i) : "memory");
    if (i % 64 >= 8 && i % 64 < 16)
        tell(told, 14, 1, i);
    __asm__ volatile(MARK(23) "nop" : : :);
}

static void conditions(struct told *told, uint64_t i)
{
    uint64_t to = 1, rcx = 1 + i % 2, count = i % 5;
    __asm__ volatile("cmp $50, %1\n\t" MARK(3) "cmovb %2, %0" : "+r"(to) : "r"(i % 100), "r"(i) : "cc");
    tell(told, 3, 1, (uint64_t)(i % 100 < 50));

    char *from = table, *into = other;
    tell(told, 4, 4, (uint64_t)(count != 0), count, from, into);
    __asm__ volatile(MARK(4) "rep movsb" : "+S"(from), "+D"(into), "+c"(count) : : "memory");

    tell(told, 7, 1, (uint64_t)(rcx != 1));
    __asm__ volatile(MARK(7) "loop 1f\n\tnop\n1:" : "+c"(rcx));
    rcx = i % 3;
    tell(told, 8, 1, (uint64_t)(rcx == 0));
    __asm__ volatile(MARK(8) "jrcxz 1f\n\tnop\n1:" : "+c"(rcx));
    rcx = 2 + i % 2;
    tell(told, 9, 1, (uint64_t)(i % 3 == 0));
    __asm__ volatile("cmp $0, %1\n\t" MARK(9) "loope 1f\n\tnop\n1:" : "+c"(rcx) : "r"(i % 3) : "cc");

    // Downwards.
    count = 1 + i % 7;
    from = table + 20, into = other + 30;
    tell(told, 22, 4, from + 1 - count, count, into + 1 - count, count);
    __asm__ volatile("std\n\t" MARK(22) "rep movsb\n\tcld" : "+S"(from), "+D"(into), "+c"(count) : : "memory");
}

static void branches(struct told *told, uint64_t i)
{
    void (*target)(void) = i % 2 ? first_target : second_target;
    uint64_t back;
    __asm__ volatile("lea 1f(%%rip), %0\n\t" MARK(5) "call *%1\n1:" : "=&r"(back) : "r"(target) : "memory");
    tell(told, 5, 1, target);
    tell(told, 6, 2, back, back);

    double x = i * 0.5;
    float y = i * 0.25f;
    double result = callee(i, 2, 3, 4, 5, i * 6, i * 7, 8, x, y);
    tell(told, 10, 7, i, (uint64_t)2, i * 6, i * 7, (uint64_t)8, bits(x), single_bits(y));
    tell(told, 11, 2, i * 7, bits(result));

    if (i % 50)
        return;
    // A signal before a system call has it begun again.
    sigset_t ticks;
    sigemptyset(&ticks);
    sigaddset(&ticks, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &ticks, NULL);
    long number = SYS_getpid;
    tell(told, 19, 4, number, i, i * 2, i);
    register long r9 __asm__("r9") = (long)i;
    __asm__ volatile(MARK(19) "syscall" : "+a"(number) : "D"(i), "S"(i * 2), "r"(r9) : "rcx", "r11", "memory");
    pthread_sigmask(SIG_UNBLOCK, &ticks, NULL);
}

static void changes(struct told *told, uint64_t i)
{
    uint64_t b = i, r12 = 0, low = 0;
    register uint64_t named __asm__("r12") = 0;
    __asm__ volatile("movq %0, %%xmm5\n\t" MARK(12) "nop\n\tadd $100, %0\n\tmovq %%xmm5, %2"
                     : "+b"(b), "+r"(named), "=r"(low) : : "xmm5", "cc");
    r12 = named;
    tell(told, 12, 2, i, i);
    told[12].changed += (int64_t)(b - i) * 1000000 + (int64_t)r12 * 1000 + (int64_t)(low - i);

    b = 0;
    __asm__ volatile(MARK(16) "add $1, %0" : "+b"(b) : : "cc");
    told[16].changed += (int64_t)b - 1;
    b = 0;
    __asm__ volatile(MARK(17) "nop\n\tadd $1, %0" : "+b"(b) : : "cc");
    told[17].changed += (int64_t)b - 1;
    b = 0;
    __asm__ volatile("cmp %0, %0\n\t" MARK(18) "je 1f\n\tadd $1, %0\n1:" : "+b"(b) : : "cc");
    told[18].changed += (int64_t)b;

    b = 0;
    __asm__ volatile(MARK(24) "call adds" : "+b"(b) : : "cc", "memory");
    told[24].changed += (int64_t)b - 1;
    b = 0;
    __asm__ volatile("call adds_more" : "+b"(b) : : "cc", "memory");
    told[25].changed += (int64_t)b - 1;
    long number = SYS_getppid;
    __asm__ volatile(MARK(26) "syscall" : "+a"(number) : : "rcx", "r11", "memory");
    told[26].changed += number == getppid() ? 0 : number;
    b = 0;
    __asm__ volatile(MARK(27) "nop\n\tadd $1, %0" : "+b"(b) : : "cc");
    told[27].changed += (int64_t)b - 1;
    b = 0;
    __asm__ volatile("cmp %0, %0\n\t" MARK(28) "je 1f\n\tnop\n1:\tadd $1, %0" : "+b"(b) : : "cc");
    told[28].changed += (int64_t)b - 1;
    b = 0;
    __asm__ volatile("cmp %0, %0\n\t" MARK(29) "jne 1f\n\tadd $1, %0\n1:" : "+b"(b) : : "cc");
    told[29].changed += (int64_t)b - 1;
}

__attribute__((target("avx2"))) static void gathers(struct told *told, uint64_t i)
{
    static const int32_t indexes[8] = {0, 3, -1, 7, 2, 5, 1, 4};
    int32_t masks[8];
    for (int k = 0; k < 8; k++)
        masks[k] = (i >> k & 1) ? -1 : 0;
    uint64_t sum = 0;
    for (int k = 0; k < 8; k++)
        if (masks[k])
            sum += (uint64_t)(other + 8 + indexes[k] * 4) + 4;
    tell(told, 20, 1, sum);
    __asm__ volatile("vmovdqu %0, %%ymm1\n\tvmovdqu %1, %%ymm2\n\tvpxor %%ymm0, %%ymm0, %%ymm0\n\t" MARK(20)
                     "vpgatherdd %%ymm2, (%2,%%ymm1,4), %%ymm0\n\tvzeroupper"
                     : : "m"(indexes), "m"(masks), "r"(other + 8) : "xmm0", "xmm1", "xmm2");
}

static void *work(void *argument)
{
    struct told *told = argument;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        registers(told, i);
        conditions(told, i);
        branches(told, i);
        changes(told, i);
        if (__builtin_cpu_supports("avx2"))
            gathers(told, i);
    }
    return NULL;
}

static void tick(int number)
{
    (void)number;
}

int main(void)
{
    static struct told told[2][MARKERS];
    __asm__ volatile(MARK(15) "nop" : : "a"(table));
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, work, told[1]);
    work(told[0]);
    pthread_join(thread, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    for (int number = 0; number < MARKERS; number++) {
        all[number].times = told[0][number].times + told[1][number].times;
        all[number].sum = told[0][number].sum + told[1][number].sum;
        all[number].changed = told[0][number].changed + told[1][number].changed;
        if (all[number].times)
            printf("marker %d: %lu times, %lx\n", number, all[number].times, all[number].sum);
        if (all[number].changed)
            printf("changed %d by %ld\n", number, all[number].changed);
    }
    return 0;
}
