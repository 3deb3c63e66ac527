// A filter has system calls carried out by a handler: SIGSYS tells the call, its address and the
// filter's reason, the context its arguments; the result is what the handler leaves in rax. Where
// the signal is blocked or ignored, the process dies.
// flags: -O2 -D_GNU_SOURCE
// variants: static, threaded
#include <sys/mman.h>
#include <ucontext.h>

#include "filters.h"

#define REASON 0x1234
#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

static volatile int calls, wrong;

static void handle(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *behind = (unsigned char *)registers[REG_RIP];
    calls++;
    wrong += signal != SIGSYS || info->si_code != SYS_SECCOMP || info->si_errno != REASON;
    wrong += info->si_call_addr != behind || behind[-2] != 0x0f || behind[-1] != 0x05;
    wrong += info->si_arch != AUDIT_ARCH_X86_64 || info->si_syscall != (int)registers[REG_RAX];
    wrong += registers[REG_RCX] != registers[REG_RIP];
    long sum = registers[REG_RDI] + registers[REG_RSI] + registers[REG_RDX];
    registers[REG_RAX] = sum + registers[REG_R10] + registers[REG_R8] + registers[REG_R9];
}

static void install_traps(void) {
    FILTER(traps, LOAD(nr), IF(SYS_getppid, SECCOMP_RET_TRAP | REASON),
           IF(SYS_mmap, SECCOMP_RET_TRAP | REASON), IF(SYS_clone, SECCOMP_RET_TRAP | REASON),
           IF(SYS_rt_sigprocmask, SECCOMP_RET_TRAP | REASON),
           IF(SYS_execve, SECCOMP_RET_TRAP | REASON), IF(600, SECCOMP_RET_TRAP | REASON),
           RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&traps, 0) == 0);
}

static void while_blocked(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigprocmask(SIG_BLOCK, &set, NULL);
    install_traps();
    getppid();
}

static void while_ignored(void) {
    signal(SIGSYS, SIG_IGN);
    install_traps();
    getppid();
}

static void without_handler(void) {
    signal(SIGSYS, SIG_DFL);
    install_traps();
    getppid();
}

// The handler's own call is trapped, while the signal is blocked.
static void handle_by_asking(int signal) {
    (void)signal;
    getppid();
}

static void in_its_handler(void) {
    signal(SIGSYS, handle_by_asking);
    install_traps();
    getppid();
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGSYS, &action, NULL) == 0);
    EXPECT(ENDS_BY(ending_of(while_blocked), SIGSYS));
    EXPECT(ENDS_BY(ending_of(while_ignored), SIGSYS));
    EXPECT(ENDS_BY(ending_of(without_handler), SIGSYS));
    EXPECT(ENDS_BY(ending_of(in_its_handler), SIGSYS));
    install_traps();
    EXPECT(syscall(SYS_getppid, 1, 20, 300, 4000, 50000, 600000) == 654321);
    EXPECT(syscall(SYS_mmap, 0, 4096, 3, 0x22, 0, 0) == 4096 + 3 + 0x22);
    EXPECT(syscall(SYS_clone, 1, 2, 3, 4, 5, 6) == 21);
    EXPECT(syscall(SYS_rt_sigprocmask, 1, 1, 1, 1, 1, 1) == 6);
    EXPECT(syscall(SYS_execve, 0, 1, 2, 0, 0, 0) == 3);
    EXPECT(syscall(600, 5, 5, 5, 5, 5, 5) == 30);
    // The kernel takes 32 bits of the number.
    EXPECT(syscall(SYS_getppid | 1L << 40, 7, 0, 0, 0, 0, 0) == 7);
    for (int round = 0; round < 1000; round++)
        EXPECT(syscall(SYS_getppid, round, 0, 0, 0, 0, 0) == round);
    EXPECT(calls == 1007 && wrong == 0);
    puts("end");
}
