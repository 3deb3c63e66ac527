// A child that asks its parent to trace it (PTRACE_TRACEME) shows its tracer its own registers,
// memory and signals and no others, and goes on with its handlers, mask, alternate stack, break
// and time: a forked child, one in its parent's place that executes a program, and one that fails
// to.
// compare: status
#define _GNU_SOURCE
#include "expect.h"
#include <asm/prctl.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

static struct {
    volatile long fs_base;
    volatile long handled;
    volatile long on_alternate_stack;
} *shared;

static volatile long peeked = 0x1234567887654321;
static __thread long own = 17;
static char alternate[1 << 16];

static void handle(int signal, siginfo_t *info, void *context) {
    char here;
    (void)context;
    EXPECT(signal == SIGUSR1 && info->si_pid == getpid());
    shared->handled++;
    shared->on_alternate_stack = &here >= alternate && &here < alternate + sizeof alternate;
}

static void __attribute__((noreturn)) be_traced(void) {
    sigset_t mask, now;
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct timespec first, second;
    char *before = sbrk(10000);
    memset(before, 1, 10000);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    kill(getpid(), SIGUSR2);
    clock_gettime(CLOCK_MONOTONIC, &first);
    syscall(SYS_arch_prctl, ARCH_GET_FS, &shared->fs_base);

    register double kept asm("xmm9") = 1.5;
    asm volatile("" : "+x"(kept));
    EXPECT(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    asm volatile("" : "+x"(kept));
    EXPECT(kept == 1.5 && own == 17);

    raise(SIGSTOP);
    raise(SIGUSR1);
    EXPECT(shared->handled == 1);
    sigprocmask(SIG_SETMASK, NULL, &now);
    EXPECT(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGUSR1));
    sigpending(&now);
    EXPECT(sigismember(&now, SIGUSR2));
    char *after = sbrk(1 << 20);
    EXPECT(after == before + 10000 && before[9999] == 1);
    memset(after, 2, 1 << 20);
    EXPECT(sbrk(-(1 << 20)) == after + (1 << 20) && sbrk(0) == after);
    for (int round = 0; round < 1000; round++)
        clock_gettime(CLOCK_MONOTONIC, &second);
    EXPECT(second.tv_sec - first.tv_sec < 60);
    EXPECT(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == EPERM);
    exit(7);
}

// Goes on until the next stop, and returns its status.
static int next_stop(pid_t child, int signal) {
    int status;
    if (signal >= 0)
        EXPECT(ptrace(PTRACE_CONT, child, 0, signal) == 0);
    EXPECT(waitpid(child, &status, 0) == child);
    return status;
}

#define STOPPED(status, signal) (WIFSTOPPED(status) && WSTOPSIG(status) == (signal))
#define EXITED(status, code) (WIFEXITED(status) && WEXITSTATUS(status) == (code))

static void fork_one(void) {
    struct user_regs_struct registers;
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        be_traced();
    int status = next_stop(child, -1);
    EXPECT(STOPPED(status, SIGSTOP));
    EXPECT(ptrace(PTRACE_GETREGS, child, 0, &registers) == 0);
    EXPECT((long)registers.fs_base == shared->fs_base);
    EXPECT(registers.gs_base == 0);
    EXPECT(ptrace(PTRACE_PEEKDATA, child, &peeked, 0) == peeked);
    status = next_stop(child, 0);
    EXPECT(STOPPED(status, SIGUSR1));
    status = next_stop(child, SIGUSR1);
    EXPECT(EXITED(status, 7));
    EXPECT(shared->handled == 1 && shared->on_alternate_stack);
}

static void vfork_one(char *program) {
    pid_t child = vfork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(program, program, "executed", NULL);
        _exit(40);
    }
    int status = next_stop(child, -1);
    EXPECT(STOPPED(status, SIGTRAP));
    status = next_stop(child, 0);
    EXPECT(EXITED(status, 31));

    child = vfork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl("/does/not/exist", program, NULL);
        _exit(errno == ENOENT ? 41 : 42);
    }
    status = next_stop(child, -1);
    EXPECT(EXITED(status, 41));
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "executed") == 0)
        return 31;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 5; round++) {
        fork_one();
        vfork_one(words[0]);
    }
    puts("traced");
    return 0;
}
