// A timer interrupts code that keeps a known value in every register, between and in branches,
// calls, loads and stores: each handler sees these values, and the code finds them afterwards.
// flags: -O1 -mno-red-zone -D_GNU_SOURCE
// variants: threaded
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <ucontext.h>

#include "expect.h"

extern char first_kept[], last_kept[];
static volatile sig_atomic_t ticks, inside;

static void tick(int signal, siginfo_t *information, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    EXPECT(signal == SIGALRM && information != NULL);
    ticks++;
    if (registers[REG_RIP] < (greg_t)first_kept || registers[REG_RIP] >= (greg_t)last_kept)
        return;
    inside++;
    EXPECT(registers[REG_RBX] == 0x2222 && registers[REG_RBP] == 0x3333);
    EXPECT(registers[REG_RDX] == 0x4444 && registers[REG_RDI] == 0x6666);
    EXPECT(registers[REG_R8] == 0x8888 && registers[REG_R9] == 0x9999);
    EXPECT(registers[REG_R10] == 0xaaaa && registers[REG_R11] == 0xbbbb);
    EXPECT(registers[REG_R12] == 0xcccc && registers[REG_R13] == 0xdddd);
    EXPECT(registers[REG_R14] == 0xeeee && registers[REG_R15] == 0xffff);
}

// Counts in rcx, works on the words at rsi with rax alone, and touches nothing else. Each
// piece leaves other registers untouched, so that whoever observes it may use others.
static __attribute__((noinline)) int run(uint64_t *words) {
    int wrong;
    __asm__ volatile(
        "push %%rbp\n"
        "mov $0x2222, %%ebx\n mov $0x3333, %%ebp\n mov $0x4444, %%edx\n mov $0x6666, %%edi\n"
        "mov $0x8888, %%r8d\n mov $0x9999, %%r9d\n mov $0xaaaa, %%r10d\n mov $0xbbbb, %%r11d\n"
        "mov $0xcccc, %%r12d\n mov $0xdddd, %%r13d\n mov $0xeeee, %%r14d\n mov $0xffff, %%r15d\n"
        "mov $2000, %%ecx\n"
        ".globl first_kept, last_kept\n first_kept:\n"
        "1: mov (%%rsi), %%rax\n add $1, %%rax\n mov %%rax, (%%rsi)\n"
        "test $1, %%al\n jz 2f\n addq $1, 8(%%rsi)\n"
        "2: test $2, %%al\n jnz 3f\n mov %%r10, 16(%%rsi)\n mov %%r9, 24(%%rsi)\n"
        "cmp %%r9, 24(%%rsi)\n jne 5f\n"
        "3: test $4, %%al\n jz 4f\n mov %%r11, 32(%%rsi)\n mov %%r14, 40(%%rsi)\n"
        "cmp %%r15, 40(%%rsi)\n je 5f\n"
        "4: call 6f\n lea 6f(%%rip), %%rax\n call *%%rax\n dec %%rcx\n jnz 1b\n jmp 5f\n"
        "6: addq $3, 48(%%rsi)\n lock addq $1, 56(%%rsi)\n ret\n"
        "5: last_kept:\n xor %%eax, %%eax\n"
        "xor $0x2222, %%rbx\n or %%rbx, %%rax\n xor $0x3333, %%rbp\n or %%rbp, %%rax\n"
        "xor $0x4444, %%rdx\n or %%rdx, %%rax\n xor $0x6666, %%rdi\n or %%rdi, %%rax\n"
        "xor $0x8888, %%r8\n or %%r8, %%rax\n xor $0x9999, %%r9\n or %%r9, %%rax\n"
        "xor $0xaaaa, %%r10\n or %%r10, %%rax\n xor $0xbbbb, %%r11\n or %%r11, %%rax\n"
        "xor $0xcccc, %%r12\n or %%r12, %%rax\n xor $0xdddd, %%r13\n or %%r13, %%rax\n"
        "xor $0xeeee, %%r14\n or %%r14, %%rax\n xor $0xffff, %%r15\n or %%r15, %%rax\n"
        "or %%rcx, %%rax\n setnz %%al\n movzx %%al, %%eax\n pop %%rbp\n"
        : "=a"(wrong)
        : "S"(words)
        : "rbx", "rcx", "rdx", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "cc", "memory");
    return wrong;
}

int main(void) {
    // Handlers run elsewhere: the code above uses what lies below the stack pointer.
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    EXPECT(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct itimerval interval = {{0, 300}, {0, 300}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    static uint64_t words[8];
    uint64_t runs = 0;
    for (; inside < 100; runs++)
        EXPECT(run(words) == 0);
    EXPECT(words[0] == 2000u * runs && words[1] == 1000u * runs);
    EXPECT(words[6] == 12000u * runs && words[7] == 4000u * runs);
    puts("kept");
    return 0;
}
