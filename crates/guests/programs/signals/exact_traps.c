// SIGILL, SIGTRAP, SIGBUS and both kinds of SIGSEGV at instructions whose addresses are known: the
// handler sees the address, the registers, and the state of both floating-point units, changes
// some of it, and goes on elsewhere.
// flags: -O1 -D_GNU_SOURCE
// variants: threaded
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "expect.h"

// All set known registers, round toward zero in both units, leave 1.5 on the x87 stack, and do
// what cannot be done. Behind it the flags are still wanted, and what the handler made of the rest.
#define TRAP(name, instruction)                                                        \
    __asm__(".text\n .globl " #name ", " #name "_at\n" #name ":\n"                      \
            "push %rbx\n push %rbp\n sub $16, %rsp\n"                                  \
            "stmxcsr (%rsp)\n fnstcw 4(%rsp)\n"                                        \
            "movl $0x7f80, 8(%rsp)\n ldmxcsr 8(%rsp)\n"                                \
            "movw $0x0f7f, 12(%rsp)\n fldcw 12(%rsp)\n"                                \
            "movl $0x3fc00000, 8(%rsp)\n flds 8(%rsp)\n"                               \
            "mov $0x1234, %ebx\n mov $0x5678, %ebp\n mov $-1, %eax\n add $1, %eax\n"   \
            #name "_at: " instruction "\n"                                             \
            "pushfq\n pop %rcx\n"                                                     \
            "mov %rbx, %rax\n fstps 8(%rsp)\n movl 8(%rsp), %edx\n"                    \
            "ldmxcsr (%rsp)\n fldcw 4(%rsp)\n"                                         \
            "add $16, %rsp\n pop %rbp\n pop %rbx\n ret\n");                            \
    struct answer name(void *);                                                        \
    extern char name##_at[];

// In rax and rdx.
struct answer {
    uint64_t register_value, x87_value;
};

TRAP(undefined, "ud2")
TRAP(breakpoint, "int3; nop")
TRAP(beyond_file, "movb (%rdi), %al")
TRAP(forbidden, "movb %al, (%rdi)")
TRAP(not_an_address, "movb (%rdi), %al")
TRAP(privileged, "hlt; nop")

static struct {
    int signal, code;
    char *pc, *address;
    int length;
} expected;

static void handler(int signal, siginfo_t *information, void *context) {
    ucontext_t *interrupted = context;
    greg_t *registers = interrupted->uc_mcontext.gregs;
    struct _libc_fpstate *floats = interrupted->uc_mcontext.fpregs;
    EXPECT(signal == expected.signal && information->si_code == expected.code);
    EXPECT(registers[REG_RIP] == (greg_t)expected.pc && information->si_addr == expected.address);
    EXPECT(registers[REG_RBX] == 0x1234 && registers[REG_RBP] == 0x5678);
    // Zero, parity, carry and adjust, as -1 + 1 leaves them.
    EXPECT((registers[REG_EFL] & 0x8d5) == 0x55);
    EXPECT(floats->mxcsr == 0x7f80 && floats->cwd == 0x0f7f);
    EXPECT(floats->_st[0].significand[3] == 0xc000 && floats->_st[0].exponent == 0x3fff);
    uint32_t now;
    __asm__ volatile("stmxcsr %0" : "=m"(now));
    EXPECT(now == 0x1f80);
    registers[REG_RBX] = 0x4321;
    floats->_st[0].exponent++;
    registers[REG_RIP] += expected.length;
}

static void expect(int signal, int code, char *at, void *address, int length) {
    expected.signal = signal;
    expected.code = code;
    expected.pc = at;
    expected.address = address;
    expected.length = length;
}

static void check(struct answer answer) {
    EXPECT(answer.register_value == 0x4321 && answer.x87_value == 0x40400000);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    int signals[] = {SIGILL, SIGTRAP, SIGBUS, SIGSEGV};
    for (int i = 0; i < 4; i++)
        EXPECT(sigaction(signals[i], &action, NULL) == 0);
    char name[] = "short-XXXXXX";
    int file = mkstemp(name);
    EXPECT(file >= 0 && unlink(name) == 0 && ftruncate(file, 4096) == 0);
    char *both = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    EXPECT(both != MAP_FAILED);
    for (int i = 0; i < 3; i++) {
        expect(SIGILL, ILL_ILLOPN, undefined_at, undefined_at, 2);
        check(undefined(NULL));
        // Behind the instruction, and without an address.
        expect(SIGTRAP, SI_KERNEL, breakpoint_at + 1, NULL, 1);
        check(breakpoint(NULL));
        expect(SIGBUS, BUS_ADRERR, beyond_file_at, both + 5000, 2);
        check(beyond_file(both + 5000));
        expect(SIGSEGV, SEGV_ACCERR, forbidden_at, both + 5, 2);
        check(forbidden(both + 5));
        expect(SIGSEGV, SEGV_MAPERR, forbidden_at, (void *)16, 2);
        check(forbidden((void *)16));
        expect(SIGSEGV, SI_KERNEL, not_an_address_at, NULL, 2);
        check(not_an_address((void *)0x8000000000000000));
        expect(SIGSEGV, SI_KERNEL, privileged_at, NULL, 1);
        check(privileged(NULL));
    }
    puts("exact");
    return 0;
}
