// A program that crashes has a child look at it, as crash reporters do: the handler of SIGSEGV
// starts a child with a copy of the memory, which attaches to all threads of its parent, finds
// registers and memory as they are natively, and lets them go on.
// flags: -O1 -pthread -D_GNU_SOURCE
// ending: signal 11
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "expect.h"

extern char __executable_start, etext;

static long clue = 0x0123456789abcdef;
static volatile uint64_t fault_pc, fault_register, handler_stack;
static atomic_long beats;
static int told[2], thread_count;
static pid_t crashed, parent;
static char reporter_stack[1 << 16];

static int in_program(uint64_t pc) {
    return pc >= (uint64_t)&__executable_start && pc < (uint64_t)&etext;
}

static void look_at(pid_t thread) {
    struct user_regs_struct registers;
    EXPECT(ptrace(PTRACE_ATTACH, thread, 0, 0) == 0);
    int status;
    EXPECT(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status));
    EXPECT(WSTOPSIG(status) == SIGSTOP);
    EXPECT(ptrace(PTRACE_GETREGS, thread, 0, &registers) == 0);
    if (thread == crashed) {
        // In its handler, or a function that this has called.
        EXPECT(registers.rsp < handler_stack && handler_stack - registers.rsp < 1 << 16);
    } else if (thread != parent) {
        EXPECT(in_program(registers.rip) && registers.r15 == 0x5151515151515151);
    }
    errno = 0;
    EXPECT(ptrace(PTRACE_PEEKDATA, thread, &clue, 0) == clue && errno == 0);
}

static int report(void *nothing) {
    (void)nothing;
    char byte;
    EXPECT(read(told[0], &byte, 1) == 1);
    pid_t threads[64];
    int count = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", parent);
    DIR *folder = opendir(path);
    EXPECT(folder != NULL);
    look_at(parent);
    threads[count++] = parent;
    for (struct dirent *entry; (entry = readdir(folder));) {
        pid_t thread = atoi(entry->d_name);
        if (thread == 0 || thread == parent)
            continue;
        look_at(thread);
        threads[count++] = thread;
    }
    closedir(folder);
    EXPECT(count == thread_count);
    EXPECT(in_program(fault_pc) && fault_register == 0x4242424242424242);
    for (int thread = 0; thread < count; thread++)
        EXPECT(ptrace(PTRACE_DETACH, threads[thread], 0, 0) == 0);
    return 17;
}

static void handler(int signal, siginfo_t *information, void *argument) {
    ucontext_t *context = argument;
    EXPECT(signal == SIGSEGV && information->si_addr == (void *)8);
    fault_pc = context->uc_mcontext.gregs[REG_RIP];
    fault_register = context->uc_mcontext.gregs[REG_R12];
    handler_stack = (uint64_t)__builtin_frame_address(0);
    crashed = syscall(SYS_gettid);
    EXPECT(pipe(told) == 0);
    pid_t child = clone(report, reporter_stack + sizeof reporter_stack, CLONE_FS | CLONE_UNTRACED,
                        NULL);
    EXPECT(child > 0);
    prctl(PR_SET_PTRACER, child, 0, 0, 0);
    EXPECT(write(told[1], "", 1) == 1);
    int status;
    pid_t waited;
    do
        waited = waitpid(child, &status, __WALL);
    while (waited == -1 && errno == EINTR);
    EXPECT(waited == child && WIFEXITED(status) && WEXITSTATUS(status) == 17);
    // The others go on.
    long seen = atomic_load(&beats);
    while (atomic_load(&beats) < seen + 1000)
        sched_yield();
    printf("reported\n");
    fflush(stdout);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static void *beat(void *nothing) {
    (void)nothing;
    asm volatile("mov $0x5151515151515151, %%r15\n"
                 "1: lock incq %0\n"
                 "jmp 1b"
                 : "+m"(beats)
                 :
                 : "r15", "memory");
    return NULL;
}

static void crash(void) {
    asm volatile("mov $0x4242424242424242, %%r12\n"
                 "mov $8, %%eax\n"
                 "mov (%%rax), %%rax"
                 :
                 :
                 : "rax", "r12", "memory");
}

static void *crash_in_thread(void *nothing) {
    crash();
    return nothing;
}

int main(int count, char **arguments) {
    (void)arguments;
    parent = getpid();
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO}, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, beat, NULL);
    while (atomic_load(&beats) == 0)
        sched_yield();
    thread_count = 2;
    if (count == 1)
        crash();
    thread_count = 3;
    pthread_create(&thread, NULL, crash_in_thread, NULL);
    pthread_join(thread, NULL);
    return 0;
}
