// Filters look at a call's arguments, both halves, and at the address behind the instruction
// that makes it: only one place of the program may make it.
// flags: -O2 -D_GNU_SOURCE
// variants: non-pie, static
#include <stdint.h>
#include <sys/mman.h>

#include "filters.h"

// `syscall` at a place that is known.
extern const char allowed_place[], other_place[];
long call_here(long number, long first);
long call_there(long number, long first);
__asm__(".text\n"
        "call_here: mov %rdi, %rax; mov %rsi, %rdi; syscall\n"
        "allowed_place: ret\n"
        "call_there: mov %rdi, %rax; mov %rsi, %rdi; syscall\n"
        "other_place: ret\n");

int main(void) {
    uintptr_t place = (uintptr_t)allowed_place;
    FILTER(by_address, LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
           RETURN(SECCOMP_RET_ALLOW), LOAD(instruction_pointer),
           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)place, 0, 3),
           BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                    offsetof(struct seccomp_data, instruction_pointer) + 4),
           IF((uint32_t)(place >> 32), SECCOMP_RET_ALLOW), RETURN(SECCOMP_RET_ERRNO | EPERM));
    pid_t parent = getppid();
    EXPECT(install(&by_address, 0) == 0);
    for (int round = 0; round < 3; round++) {
        EXPECT(call_here(SYS_getppid, 0) == parent);
        EXPECT(call_there(SYS_getppid, 0) == -EPERM);
        EXPECT(syscall(SYS_getppid) == -1 && errno == EPERM);
    }

    // Sums over arguments, with a cell, X, and a division that may fail.
    FILTER(by_arguments, LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 500, 1, 0),
           RETURN(SECCOMP_RET_ALLOW), LOAD_LOW(0), BPF_STMT(BPF_ST, 3), LOAD_LOW(1),
           BPF_STMT(BPF_MISC | BPF_TAX, 0), BPF_STMT(BPF_LD | BPF_MEM, 3),
           BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xfff),
           BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO), BPF_STMT(BPF_RET | BPF_A, 0));
    EXPECT(install(&by_arguments, 0) == 0);
    EXPECT(syscall(500, 5000, 7) == -1 && errno == 5000 / 7);
    EXPECT(syscall(500, 0x100000000 + 5000, 0x300000000 + 9) == -1 && errno == 5000 / 9);

    FILTER(by_upper_half, LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
           RETURN(SECCOMP_RET_ALLOW), LOAD_LOW(2),
           BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
           RETURN(SECCOMP_RET_ERRNO | EPROTO),
           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + 4),
           BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 0, 1), RETURN(SECCOMP_RET_ERRNO | EDOM),
           RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&by_upper_half, 0) == 0);
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    EXPECT(mprotect(page, 4096, PROT_READ | PROT_EXEC) == -1 && errno == EPROTO);
    EXPECT(mprotect(page, 1L << 32, PROT_READ) == -1 && errno == EDOM);
    *(volatile char *)page = 1;
    puts("end");
}
