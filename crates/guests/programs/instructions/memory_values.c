// Instructions that read and write 1 to 8 bytes, by all ways to name memory, while a timer ticks whose
// handler does the like. For each it tells the values that it reads (r) and has written (w): how often,
// and their sum, each times its number. Then accesses to memory that is not there, with the signals
// that they raise.
// flags: -O1 -no-pie -fno-pie -mno-red-zone -fcf-protection=none -fno-stack-protector
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

// So many take some ticks of the timer on any processor.
#define ROUNDS 2000
#define PAGE 4096

struct told {
    const char *pc;
    char kind;
    uint64_t times, sum;
};

static struct told all[128];

static void tell(const char *pc, char kind, uint64_t value)
{
    struct told *told = all;
    while (told->pc && (told->pc != pc || told->kind != kind))
        told++;
    told->pc = pc;
    told->kind = kind;
    told->sum += ++told->times * value;
}

static uint64_t value_at(const volatile void *address, int size)
{
    uint64_t value = 0;
    memcpy(&value, (const void *)address, size);
    return value;
}

#define AT(name) #name "_at:\n\t"
#define PLACE(name) ({ extern const char name##_at[]; name##_at; })
#define READS(name, address, size) tell(PLACE(name), 'r', value_at(address, size))
#define WROTE(name, address, size) tell(PLACE(name), 'w', value_at(address, size))
#define DO(code, ...) __asm__ volatile(code : : __VA_ARGS__ : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "cc", "memory", "xmm0")

uint64_t global = 0x1122334455667788;
static __thread uint64_t own = 0x99aabbccddeeff00;
static uint64_t in_gs[4];
static unsigned char words[256];

__attribute__((noinline)) static void plain(unsigned char *at)
{
    READS(byte, at + 1, 1);
    DO(AT(byte) "movzbl 1(%0), %%eax", "r"(at));
    READS(half, at + 3, 2);
    DO(AT(half) "movswq 3(%0), %%rax", "r"(at));
    READS(indexed, at + 4 * 5 + 7, 4);
    DO(AT(indexed) "mov 7(%0,%1,4), %%eax", "r"(at), "r"(5l));
    READS(only_index, at, 8);
    DO(AT(only_index) "mov (,%0,8), %%rax", "r"((uintptr_t)at / 8));
    READS(relative, &global, 8);
    DO(AT(relative) "add global(%%rip), %%rax", "r"(0l));
    READS(absolute, &global, 4);
    DO(AT(absolute) "cmp %%eax, global", "r"(0l));
    READS(moffs, &global, 4);
    DO(AT(moffs) "movabs global, %%eax", "r"(0l));
    READS(thread, &own, 8);
    DO(AT(thread) "mov %%fs:(%0), %%rax", "r"((uintptr_t)&own - (uintptr_t)__builtin_thread_pointer()));
    READS(other_segment, &in_gs[1], 8);
    DO(AT(other_segment) "mov %%gs:8, %%rax", "r"(0l));
    READS(gs_indexed, &in_gs[3], 8);
    DO(AT(gs_indexed) "mov %%gs:8(%0,%1,4), %%rax", "r"(8l), "r"(2l));
    READS(narrow, at + 1, 4);
    DO("lea 1(%0), %%rbx\n\t" AT(narrow) "mov (%%ebx), %%eax", "r"(at));
}

__attribute__((noinline)) static void moved(unsigned char *at)
{
    READS(table, at + 0x21, 1);
    DO("mov %0, %%rbx\n\tmov $0xffff21, %%eax\n\t" AT(table) "xlatb", "r"(at));
    READS(lods, at + 2, 8);
    DO("lea 2(%0), %%rsi\n\t" AT(lods) "lodsq", "r"(at));
    READS(moves, at + 11, 4);
    DO("lea 11(%0), %%rsi\n\tlea 70(%0), %%rdi\n\t" AT(moves) "movsl", "r"(at));
    WROTE(moves, at + 70, 4);
    DO("lea 80(%0), %%rdi\n\tmov %0, %%rax\n\tneg %%rax\n\t" AT(stores) "stosq", "r"(at));
    WROTE(stores, at + 80, 8);
    DO("lea 90(%0), %%rdi\n\tmov %0, %%rax\n\tstd\n\t" AT(downwards) "stosw\n\tcld", "r"(at));
    WROTE(downwards, at + 90, 2);
    READS(compares, at + 5, 1);
    READS(compares, at + 6, 1);
    DO("lea 5(%0), %%rsi\n\tlea 6(%0), %%rdi\n\t" AT(compares) "cmpsb", "r"(at));
}

__attribute__((noinline)) static void stacked(unsigned char *at)
{
    static uint64_t seen[2];
    READS(push_memory, at + 9, 8);
    DO(AT(push_memory) "push 9(%0)\n\tmov (%%rsp), %%rax\n\tmov %%rax, (%1)\n\t" AT(pop_register) "pop %%rax",
       "r"(at), "r"(seen));
    WROTE(push_memory, seen, 8);
    READS(pop_register, seen, 8);
    DO(AT(push_register) "push %1\n\t" AT(pop_memory) "pop 16(%0)", "r"(at), "r"(0x123456789abcdefl * at[0]));
    WROTE(push_register, at + 16, 8);
    READS(pop_memory, at + 16, 8);
    WROTE(pop_memory, at + 16, 8);
    DO("push %1\n\tpush %1\n\tpush $-7\n\t" AT(pop_above) "pop 8(%%rsp)\n\tpop %%rcx\n\tpop %%rax\n\tmov %%rax, (%0)",
       "r"(seen), "r"(0l));
    WROTE(pop_above, seen, 8);
    extern const char returned_at[];
    DO(AT(calls) "call 1f\n\t" AT(returned) "jmp 2f\n1:\n\t" AT(returns) "ret\n2:", "r"(0l));
    tell(PLACE(calls), 'w', (uintptr_t)returned_at);
    tell(PLACE(returns), 'r', (uintptr_t)returned_at);
    DO("push $77\n\tmov %%rbp, %%rax\n\tmov %%rsp, %%rbp\n\t" AT(leaves) "leave\n\tmov %%rax, %%rbp", "r"(0l));
    tell(PLACE(leaves), 'r', 77);
}

__attribute__((noinline)) static void updated(unsigned char *at)
{
    READS(adds, at + 32, 8);
    DO(AT(adds) "add %1, 32(%0)", "r"(at), "r"(0x1111111111111111l));
    WROTE(adds, at + 32, 8);
    READS(increments, at + 41, 1);
    DO(AT(increments) "incb 41(%0)", "r"(at));
    WROTE(increments, at + 41, 1);
    READS(negates, at + 43, 2);
    DO(AT(negates) "negw 43(%0)", "r"(at));
    WROTE(negates, at + 43, 2);
    READS(exchanges, at + 48, 8);
    DO("lea 48(%0), %%rax\n\t" AT(exchanges) "xchg %%rax, (%%rax)", "r"(at));
    WROTE(exchanges, at + 48, 8);
    READS(adds_locked, at + 56, 8);
    DO("lea 56(%0), %%rcx\n\t" AT(adds_locked) "lock xadd %%rcx, (%%rcx)", "r"(at));
    WROTE(adds_locked, at + 56, 8);
    READS(compare_fails, at + 64, 4);
    DO("lea 64(%0), %%rax\n\t" AT(compare_fails) "lock cmpxchg %%ecx, (%%rax)", "r"(at));
    WROTE(compare_fails, at + 64, 4);
    READS(pair, at + 72, 8);
    DO("xor %%eax, %%eax\n\txor %%edx, %%edx\n\t" AT(pair) "lock cmpxchg8b 72(%0)", "r"(at));
    WROTE(pair, at + 72, 8);
    READS(bit, at + 100, 4);
    DO(AT(bit) "btcl $7, 100(%0)", "r"(at));
    WROTE(bit, at + 100, 4);
    DO("cmp $77, %1\n\t" AT(sets) "setb 105(%0)", "r"(at), "r"((long)at[0]));
    WROTE(sets, at + 105, 1);
    READS(not_moved, at + 17, 8);
    DO("cmp %%eax, %%eax\n\t" AT(not_moved) "cmovne 17(%0), %%rax", "r"(at));
    READS(vector, at + 19, 8);
    DO(AT(vector) "movq 19(%0), %%xmm0\n\t" AT(vector_half) "movd %%xmm0, 110(%0)", "r"(at));
    WROTE(vector_half, at + 110, 4);
    READS(floating, at + 24, 8);
    DO(AT(floating) "fildll 24(%0)\n\t" AT(floating_stored) "fistpll 114(%0)", "r"(at));
    WROTE(floating_stored, at + 114, 8);
    DO(AT(constant) "movw $0x8181, 124(%0)", "r"(at));
    WROTE(constant, at + 124, 2);
}

static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    static unsigned char others[128];
    (void)signal;
    ticks++;
    DO("mov %0, %%rdi\n\tmov $-1, %%rax\n\tstosq\n\tstosb\n\tlea 64(%0), %%rax\n\txchg %%rax, (%%rax)\n\t"
       "push %%rax\n\tpop 32(%0)", "r"(others));
}

// What signals say of accesses to what is not there.

static sigjmp_buf back;
static char stack[1 << 16];
static const char *name;
static unsigned char *missing;
static int maps;

static void faulted(int signal, siginfo_t *info, void *context)
{
    __asm__ volatile("pushfq\n\tandl $0xfffbffff, (%%rsp)\n\tpopfq" : : : "cc", "memory");
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t address = info->si_code > 0 && info->si_code != SI_KERNEL ? (uintptr_t)info->si_addr : 0;
    printf("fault ");
    for (const char *letter = name; *letter; letter++)
        putchar(*letter < ' ' ? ' ' : *letter);
    printf(": signal %d, code %d, at %lx, by %llx, error %llx, trap %lld, rbx %llx\n", signal,
           info->si_code, address, registers[REG_RIP], registers[REG_ERR], registers[REG_TRAPNO],
           registers[REG_RBX]);
    if (maps) {
        mprotect(missing, PAGE, PROT_READ | PROT_WRITE);
        missing[8] = 42;
        return;
    }
    siglongjmp(back, 1);
}

#define FAULT(code, ...)                                                                    \
    do {                                                                                    \
        name = code;                                                                        \
        if (!sigsetjmp(back, 1))                                                            \
            __asm__ volatile("mov $0x5aa5, %%rbx\n\t" code : : __VA_ARGS__                  \
                             : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "cc", "memory"); \
    } while (0)

static void faults(void)
{
    const uint64_t none = 0x8000000000000000;
    missing = mmap((void *)0x2a5a0000, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    unsigned char *edge = mmap((void *)0x2a5b0000, 2 * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    munmap(edge + PAGE, PAGE);
    int file = memfd_create("short", 0);
    unsigned char *behind = mmap((void *)0x2a5c0000, PAGE, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_FIXED, file, 0);
    unsigned char *constant = mmap((void *)0x2a5d0000, PAGE, PROT_READ,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternative, 0);
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    FAULT("mov (%0), %%eax", "r"(missing));
    FAULT("add %%eax, (%0)", "r"(missing));
    FAULT("lock xadd %%eax, (%0)", "r"(missing));
    FAULT("xchg %%ax, 4(%0)", "r"(missing));
    FAULT("mov %%eax, (%0)", "r"(missing));
    // A page that has been read is there.
    (void)*(volatile unsigned char *)constant;
    FAULT("incb (%0)", "r"(constant));
    FAULT("push (%0)", "r"(missing));
    FAULT("pop (%0)", "r"(missing));
    FAULT("mov -3(%0), %%rax", "r"(edge + PAGE));
    FAULT("add %%rax, -3(%0)", "r"(edge + PAGE));
    FAULT("mov %%rax, -3(%0)", "r"(edge + PAGE));
    FAULT("mov (%0), %%al", "r"(behind));
    FAULT("decw (%0)", "r"(behind));
    FAULT("mov (%0), %%al", "r"(none));
    FAULT("mov %0, %%rsp\n\tmov (%%rsp), %%al", "r"(none));
    FAULT("mov %0, %%rbp\n\tmov 8(%%rbp), %%al", "r"(none));
    FAULT("mov %0, %%rsp\n\tpop %%rax", "r"(none));
    FAULT("mov %%fs:(%0), %%al", "r"(none));
    FAULT("mov %%gs:(%0), %%al", "r"(none));
    FAULT("mov %0, %%rsi\n\tlodsb", "r"(missing));
    FAULT("mov %0, %%rsi\n\tmov %1, %%rdi\n\tmovsb", "r"(edge), "r"(missing));
    FAULT("call *(%0)", "r"(missing));
    FAULT("jmp *8(%0)", "r"(missing));
    FAULT("pushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\tmov 1(%0), %%eax", "r"(edge));
    maps = 1;
    name = "mapped then";
    unsigned char mapped;
    __asm__ volatile("mov $0x5aa5, %%ebx\n\t" AT(mapped) "movzbl 8(%1), %%eax\n\tmov %%al, %0" : "=m"(mapped) : "r"(missing) : "rax", "rbx");
    tell(PLACE(mapped), 'r', mapped);
}

int main(void)
{
    syscall(SYS_arch_prctl, ARCH_SET_GS, in_gs);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, 0);
    uint64_t seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 256; i++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            words[i] = seed >> 56;
        }
        memcpy(in_gs, words + 128, sizeof in_gs);
        own = seed;
        global = ~seed;
        plain(words);
        moved(words);
        stacked(words);
        updated(words);
    }
    struct itimerval never = {0};
    setitimer(ITIMER_REAL, &never, 0);
    syscall(SYS_arch_prctl, ARCH_SET_GS, 0);
    faults();
    for (struct told *told = all; told->pc; told++)
        printf("%lx %c %lu %lx\n", (unsigned long)told->pc, told->kind, told->times, told->sum);
    return ticks == 0;
}
