// Instructions that access a range of memory in all ways in which an instruction can name it, in two
// threads, while a timer ticks whose handler does the like. It tells a digest of what they find, leave
// and do to registers and flags. With the argument `moved` the range cannot be accessed: a tool has to
// have every access go elsewhere, where the same is to happen.
// flags: -O1 -mavx -no-pie -fno-pie -mno-red-zone -fcf-protection=none -fno-stack-protector
// libraries: -pthread -Wl,--defsym=named_place=0x30000100
// needs: cpu avx
// compare: output
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define FROM 0x30000000ul
#define TO 0x30010000ul
#define PAGE 4096ul
#define THREADS 2
#define ROUNDS 300

static int moved;

static uint64_t digest(uint64_t all, uint64_t value)
{
    return (all ^ value) * 0x100000001b3 + (all >> 29);
}

// What an instruction does with memory at %rsi, rax, rbx, rcx and flags in and out.
#define DOES(code)                                                                           \
    do {                                                                                     \
        uint64_t a_ = seed, b_ = seed * 3, c_ = seed >> 7, f_;                               \
        uint64_t at_ = (uint64_t)at, index_ = 5;                                             \
        __asm__ volatile("xor %%edx, %%edx\n\tcmp $1, %%rax\n\t" code "\n\tpushfq\n\tpop %3" \
                         : "+a"(a_), "+b"(b_), "+c"(c_), "=&r"(f_), "+S"(at_), "+D"(index_)  \
                         :                                                                   \
                         : "rdx", "r8", "r12", "xmm0", "xmm1", "xmm2", "memory", "cc");      \
        all = digest(digest(digest(digest(all, a_), b_), c_), f_ & 0x8d5 & ~undefined);      \
        all = digest(all, index_);                                                           \
    } while (0)

__attribute__((noinline)) static uint64_t accesses(volatile unsigned char *at, uint64_t seed)
{
    uint64_t all = seed, undefined = 0;
    for (int i = 0; i < 256; i++)
        at[i] = (seed >> i % 57) + i;
    DOES("mov (%%rsi), %%rax");
    DOES("mov 3(%%rsi), %%ecx");
    DOES("mov (%%rsi,%%rdi,8), %%cx");
    DOES("mov 7(%%rsi,%%rdi), %%ah\n\tmov %%bh, 8(%%rsi)");
    DOES("mov %%rsi, %%rax\n\tmov 16(%%rax), %%rax");
    DOES("mov %%rsi, %%r12\n\tmov 24(%%r12), %%r8\n\tmov %%r8, 32(%%r12,%%rdi,4)\n\tmov %%r8, %%rbx");
    DOES("mov 8(%%esi), %%rbx\n\tmov %%ecx, 4(%%esi,%%edi,2)");
    DOES("push %%rbp\n\tmov %%rsi, %%rbp\n\tmov 40(%%rbp), %%rcx\n\tmov %%rbx, 48(%%rbp)\n\tpop %%rbp");
    DOES("movsbq 9(%%rsi), %%rax\n\tmovzwl 11(%%rsi), %%ebx");
    DOES("movb $17, 56(%%rsi)\n\tmovl $-5, 60(%%rsi,%%rdi)\n\tmovq $-9, 72(%%rsi)");
    DOES("add %%rax, (%%rsi)\n\tadc $3, %%rax");
    DOES("sub 5(%%rsi), %%ebx\n\tsbb %%rcx, 8(%%rsi)");
    DOES("cmp 16(%%rsi), %%al\n\tsetb 17(%%rsi)\n\tcmovb 24(%%rsi), %%rbx");
    DOES("incl 20(%%rsi)\n\tnegb 3(%%rsi,%%rdi,2)\n\tnotq 32(%%rsi)");
    DOES("test %%rbx, 32(%%rsi)");
    DOES("lock xadd %%rax, 40(%%rsi)\n\txchg %%rbx, 48(%%rsi)");
    DOES("mov 56(%%rsi), %%rax\n\tlock cmpxchg %%rbx, 56(%%rsi)");
    DOES("lock cmpxchg %%rcx, 64(%%rsi)");
    DOES("mov 80(%%rsi), %%rax\n\tmov 88(%%rsi), %%rdx\n\tlea 40(%%rdi), %%rdi\n\tlock cmpxchg16b 35(%%rsi,%%rdi)\n\tmov %%rdx, %%rax");
    undefined = 0x894; // What bit tests leave undefined.
    DOES("btsl $7, (%%rsi)\n\tbtcq $33, 32(%%rsi)\n\tbtl $5, 6(%%rsi)");
    undefined = 0x8d4;
    DOES("mov $3, %%cl\n\trolq %%cl, 104(%%rsi)\n\tror $5, %%rax");
    DOES("mulq 8(%%rsi)\n\tmov %%rdx, %%rbx\n\timul 16(%%rsi), %%rcx");
    undefined = 0;
    DOES("push 112(%%rsi)\n\tpop %%rax\n\tpush %%rbx\n\tpop 120(%%rsi)\n\tpushq 1(%%rsi,%%rdi)\n\tpopq 128(%%rsi,%%rdi,8)");
    DOES("movdqu 1(%%rsi), %%xmm0\n\tpaddd (%%rsi), %%xmm0\n\tmovdqa %%xmm0, 128(%%rsi)\n\tmovq %%xmm0, %%rax");
    DOES("cvtsi2sdq 8(%%rsi), %%xmm1\n\tmovsd %%xmm1, 144(%%rsi)\n\tmovnti %%rbx, 152(%%rsi)");
    DOES("vmovups 3(%%rsi), %%ymm0\n\tvpxor 16(%%rsi), %%xmm0, %%xmm1\n\tvmovups %%ymm0, 160(%%rsi)\n\tvmovq %%xmm1, %%rax\n\tvzeroupper");
    DOES("vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\tvpslldq $8, %%xmm0, %%xmm0\n\tvmaskmovps 32(%%rsi), %%xmm0, %%xmm1\n\tvmaskmovps %%xmm1, %%xmm0, 192(%%rsi)\n\tvmovq %%xmm1, %%rax");
    DOES("fildll 200(%%rsi)\n\tfistpll 208(%%rsi)\n\tstmxcsr 216(%%rsi)\n\tldmxcsr 216(%%rsi)");
    DOES("mov %%fs:0, %%rax\n\tsub %%rax, %%rsi\n\tmov %%fs:224(%%rsi), %%rbx\n\tadd %%rbx, %%fs:232(%%rsi)\n\txor %%eax, %%eax");
    if (at == (unsigned char *)FROM + 0x100)
        DOES("mov named_place+16(%%rip), %%rax\n\tadd %%rbx, named_place+24(%%rip)\n\tmovl $7, named_place+33(%%rip)");
    DOES("mov %%gs:0x140, %%rax\n\tadd %%rcx, %%gs:8(,%%rdi,8)\n\tmov %%gs:0x144, %%ebx");
    for (int i = 0; i < 256; i++)
        all = digest(all, at[i]);
    return all;
}

static sigjmp_buf back;
static __thread volatile int expected;
static volatile uintptr_t fault_at;
static volatile int ticks;
static volatile uint64_t *const ticked = (volatile uint64_t *)(FROM + 0xff8);

static void tick(int signal)
{
    (void)signal;
    __atomic_add_fetch(ticked, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
}

static void faulted(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (!expected)
        _exit(3);
    fault_at = (uintptr_t)info->si_addr;
    siglongjmp(back, 1);
}

static uint64_t found[THREADS];

static void *rounds(void *number)
{
    uintptr_t thread = (uintptr_t)number;
    uintptr_t at = FROM + thread * PAGE;
    syscall(SYS_arch_prctl, ARCH_SET_GS, at);
    uint64_t seed = thread + 1, all = 0;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        all = digest(all, accesses((unsigned char *)at + 0x100, seed));
    }
    found[thread] = all;
    return 0;
}

int main(int count, char **arguments)
{
    moved = count > 1 && !strcmp(arguments[1], "moved");
    int protection = moved ? PROT_NONE : PROT_READ | PROT_WRITE;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap((void *)FROM, THREADS * PAGE, protection, flags, -1, 0) != (void *)FROM
        || mmap((void *)TO, THREADS * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) != (void *)TO)
        return 2;
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, 0);
    struct sigaction often = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &often, 0);
    struct itimerval interval = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &interval, 0);
    pthread_t threads[THREADS];
    for (uintptr_t i = 1; i < THREADS; i++)
        pthread_create(&threads[i], 0, rounds, (void *)i);
    rounds(0);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], 0);
    while (!ticks)
        pause();
    interval = (struct itimerval){0};
    setitimer(ITIMER_REAL, &interval, 0);
    for (int i = 0; i < THREADS; i++)
        printf("%d: %lx\n", i, found[i]);
    printf("%s\n", *ticked == (uint64_t)ticks ? "all ticks" : "ticks are lost");
    // Behind the end of the range nothing is mapped, nor there where it is moved to.
    uintptr_t start = moved ? TO : FROM;
    for (int kind = 0; kind < 3; kind++) {
        volatile uint32_t *end = (volatile uint32_t *)(FROM + THREADS * PAGE + 8 * kind);
        expected = 1;
        if (!sigsetjmp(back, 1)) {
            if (kind == 0)
                (void)*end;
            else if (kind == 1)
                *end = 1;
            else
                ++*end;
            puts("no fault");
        } else
            printf("fault at %lx\n", fault_at - start);
        expected = 0;
    }
    return 0;
}
