// Executes a number of instructions that depends on nothing but its arguments: no C library,
// no addresses, no time. Among them are those that are easily counted wrong: repeated string
// instructions, some of which fault in their middle, branches that depend on counters, faults
// in the middle of straight code whose handler goes on at the same or at another
// instruction, breakpoints, and calls that return by other ways.
// flags: -O1 -static -nostdlib -nostartfiles -fno-stack-protector -fcf-protection=none -no-pie -fno-pie -mno-red-zone -Wl,--build-id=none
// compare: status
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>

#define PAGE 4096

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

void restore(void);
__asm__("restore: mov $15, %eax\n syscall");

static volatile long handled;
static char *guarded_page;

// Where the fault is to be gone on behind; 0 where the cause is removed.
extern char load_fault[], load_fault_end[];

static void on_fault(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)number;
    (void)info;
    handled++;
    if (registers[REG_RIP] == (greg_t)load_fault)
        registers[REG_RIP] = (greg_t)load_fault_end;
    else
        call(SYS_mprotect, (long)guarded_page, PAGE, PROT_READ | PROT_WRITE, 0, 0, 0);
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    handled++;
}

static void act(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct kernel_action action = {handler, SA_SIGINFO | 0x04000000, restore, 0};
    call(SYS_rt_sigaction, number, (long)&action, 0, 8, 0, 0);
}

static char from[3 * PAGE], to[3 * PAGE];

static void strings(void)
{
    for (long length = 0; length < 200; length += 7) {
        void *source = from, *target = to;
        long count = length;
        __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count)::"memory");
        target = to;
        count = length;
        __asm__ volatile("rep stosl" : "+D"(target), "+c"(count) : "a"(0) : "memory");
        target = to;
        count = 300;
        __asm__ volatile("repne scasb" : "+D"(target), "+c"(count) : "a"(1) : "memory", "cc");
    }
}

static long branches(long rounds)
{
    long sum = 0;
    __asm__ volatile("1: add %1, %0\n"
                     "   test $3, %%cl\n"
                     "   jz 2f\n"
                     "   inc %0\n"
                     "2: jrcxz 3f\n"
                     "   loop 1b\n"
                     "3: nop"
                     : "+r"(sum), "+c"(rounds)::"cc");
    return sum;
}

static long __attribute__((noinline)) recurse(long depth)
{
    return depth < 2 ? depth : recurse(depth - 1) + recurse(depth - 2);
}

static long one(long value) { return value + 1; }
static long two(long value) { return value * 2; }
static long (*volatile table[2])(long) = {one, two};

// Leaves a function by a jump to its return address, and one by two returns at once.
static void odd_returns(void)
{
    __asm__ volatile("call 1f\n"
                     "jmp 3f\n"
                     "1: call 2f\n"
                     "2: add $8, %%rsp\n"
                     "pop %%rax\n"
                     "jmp *%%rax\n"
                     "3:"
                     :::"rax", "memory");
}

static void faults(void)
{
    // In the middle of straight code; goes on behind it.
    __asm__ volatile("xor %%eax, %%eax\n"
                     "inc %%rbx\n"
                     "lea 1(%%rbx), %%rbx\n"
                     ".globl load_fault, load_fault_end\n"
                     "load_fault: mov (%%rax), %%rcx\n"
                     "inc %%rbx\n"
                     "inc %%rbx\n"
                     "load_fault_end: inc %%rbx\n"
                     "inc %%rbx"
                     :::"rax", "rbx", "rcx", "memory", "cc");
    // At the same instruction again, once it is allowed; flags are read across it.
    guarded_page = (char *)call(SYS_mmap, 0, 3 * PAGE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE;
    call(SYS_mprotect, (long)guarded_page, PAGE, PROT_NONE, 0, 0, 0);
    __asm__ volatile("cmp $5, %0\n"
                     "mov (%0), %%rcx\n"
                     "jbe 1f\n"
                     "nop\n"
                     "1: nop" ::"r"(guarded_page) : "rcx", "memory", "cc");
    // A repeated instruction that gets half its way.
    call(SYS_mprotect, (long)guarded_page, PAGE, PROT_NONE, 0, 0, 0);
    void *target = guarded_page - 100;
    long count = 300;
    __asm__ volatile("rep stosb" : "+D"(target), "+c"(count) : "a"(7) : "memory");
    // A call whose stack is not there.
    call(SYS_mprotect, (long)guarded_page, PAGE, PROT_NONE, 0, 0, 0);
    long alternate[3] = {(long)from, 0, sizeof from};
    call(SYS_sigaltstack, (long)alternate, 0, 0, 0, 0, 0);
    struct kernel_action action = {on_fault, SA_SIGINFO | SA_ONSTACK | 0x04000000, restore, 0};
    call(SYS_rt_sigaction, SIGSEGV, (long)&action, 0, 8, 0, 0);
    __asm__ volatile("mov %%rsp, %%rbx\n"
                     "lea 4096(%0), %%rsp\n"
                     "call 1f\n"
                     "jmp 2f\n"
                     "1: ret\n"
                     "2: mov %%rbx, %%rsp" ::"r"(guarded_page) : "rbx", "memory");
    // The same, where the call has been come to by another way before.
    call(SYS_mprotect, (long)guarded_page, PAGE, PROT_NONE, 0, 0, 0);
    __asm__ volatile("mov %%rsp, %%rbx\n"
                     "mov $7, %%ecx\n"
                     "dec %%rcx\n"
                     "dec %%rcx\n"
                     "1: call 2f\n"
                     "jmp 3f\n"
                     "2: ret\n"
                     "3: test %%ecx, %%ecx\n"
                     "jz 4f\n"
                     "xor %%ecx, %%ecx\n"
                     "lea 4096(%0), %%rsp\n"
                     "jmp 1b\n"
                     "4: mov %%rbx, %%rsp" ::"r"(guarded_page) : "rbx", "rcx", "memory");
    __asm__ volatile("int3");
}

static long work(long rounds)
{
    long sum = 0;
    for (long round = 0; round < rounds; round++) {
        strings();
        sum += branches(1000 + round);
        sum += recurse(12);
        for (long index = 0; index < 100; index++)
            sum = table[index % 3 == 0](sum);
        odd_returns();
        call(SYS_getppid, 0, 0, 0, 0, 0, 0);
        call(SYS_tgkill, call(SYS_getpid, 0, 0, 0, 0, 0, 0), call(SYS_gettid, 0, 0, 0, 0, 0, 0),
             SIGUSR1, 0, 0, 0);
    }
    return sum;
}

__attribute__((used)) static void start(long *stack)
{
    long rounds = stack[0] > 1 ? 3 : 2;
    act(SIGSEGV, on_fault);
    act(SIGTRAP, on_trap);
    act(SIGUSR1, on_trap);
    volatile long sum = work(rounds);
    (void)sum;
    faults();
    call(SYS_exit_group, handled == 6 + rounds ? 0 : 1, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call start\n hlt");
