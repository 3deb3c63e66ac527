// A division by zero with a known value in every register: the handler sees each of them,
// the flags and the address of the instruction, changes some, and steps over it.
// flags: -O1 -D_GNU_SOURCE
// variants: threaded
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "expect.h"

extern char division[], after_division[];
static volatile int seen;

static void handler(int signal, siginfo_t *information, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    EXPECT(signal == SIGFPE && information->si_addr == division);
    EXPECT(registers[REG_RIP] == (greg_t)division);
    EXPECT(registers[REG_RAX] == 0x1111 && registers[REG_RBX] == 0x2222);
    EXPECT(registers[REG_RCX] == 0 && registers[REG_RDX] == 0x4444);
    EXPECT(registers[REG_RSI] == 0x5555 && registers[REG_RDI] == 0x6666);
    EXPECT(registers[REG_R8] == 0x8888 && registers[REG_R9] == 0x9999);
    EXPECT(registers[REG_R10] == 0xaaaa && registers[REG_R11] == 0xbbbb);
    EXPECT(registers[REG_R12] == 0xcccc && registers[REG_R13] == 0xdddd);
    EXPECT(registers[REG_R14] == 0xeeee && registers[REG_R15] == 0xffff);
    EXPECT((registers[REG_EFL] & 0x8d5) == 0x1); // Carry alone, of the status flags.
    uint32_t *vector = ((ucontext_t *)context)->uc_mcontext.fpregs->_xmm[5].element;
    EXPECT(vector[0] == 0x7777 && vector[1] == 0 && vector[2] == 0);
    registers[REG_RIP] = (greg_t)after_division;
    registers[REG_R12] = 0x1234;
    registers[REG_EFL] ^= 0x41; // Carry off, zero on.
    vector[0] = 0x4321;
    seen++;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGFPE, &action, NULL);
    for (int i = 0; i < 3; i++) {
        register uint64_t r12 __asm__("r12");
        uint64_t vector;
        char carry, zero;
        __asm__ volatile(
            "mov $0x7777, %%eax\n movq %%rax, %%xmm5\n"
            "mov $0x1111, %%eax\n mov $0x2222, %%ebx\n xor %%ecx, %%ecx\n mov $0x4444, %%edx\n"
            "mov $0x5555, %%esi\n mov $0x6666, %%edi\n mov $0x8888, %%r8d\n mov $0x9999, %%r9d\n"
            "mov $0xaaaa, %%r10d\n mov $0xbbbb, %%r11d\n mov $0xcccc, %%r12d\n mov $0xdddd, %%r13d\n"
            "mov $0xeeee, %%r14d\n mov $0xffff, %%r15d\n"
            "push %%rax\n movb $2, (%%rsp)\n cmpb $3, (%%rsp)\n lea 8(%%rsp), %%rsp\n"
            // 2 - 3 sets carry, sign, parity and adjust; stc after a test leaves carry alone.
            "push %%rax\n mov $1, %%al\n test %%al, %%al\n stc\n pop %%rax\n"
            ".globl division, after_division\n division: div %%ecx\n after_division:\n"
            "setc %%al\n setz %%bl\n movq %%xmm5, %%rcx\n"
            : "=a"(carry), "=b"(zero), "=c"(vector), "=r"(r12)
            :
            : "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r13", "r14", "r15", "xmm5",
              "cc", "memory");
        EXPECT(r12 == 0x1234 && carry == 0 && zero == 1 && vector == 0x4321);
    }
    printf("%d exact\n", seen);
    return 0;
}
