// A signal whose frame cannot be written becomes SIGSEGV, which a handler on another stack gets:
// where the alternate stack is read-only, not there, or too small; and where the frame of a
// handler that returns cannot be read. One that was SIGSEGV's own kills.
// flags: -O1 -D_GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "expect.h"

static sigjmp_buf back;
static volatile int got, code;

static void on_fault(int signal, siginfo_t *information, void *context) {
    (void)context;
    got = signal, code = information->si_code;
    siglongjmp(back, 1);
}

static void on_signal(int signal) { got = signal; }

static void *pages(int protection) {
    return mmap(NULL, 65536, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void try(void *stack, size_t size) {
    stack_t alternate = {.ss_sp = stack, .ss_size = size};
    EXPECT(sigaltstack(&alternate, NULL) == 0);
    got = 0;
    if (sigsetjmp(back, 1) == 0)
        raise(SIGUSR1);
}

static void die_of_it(void *stack) {
    pid_t child = fork();
    if (child == 0) {
        stack_t alternate = {.ss_sp = stack, .ss_size = 65536};
        sigaltstack(&alternate, NULL);
        sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, NULL);
        raise(SIGSEGV);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void) {
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, NULL);
    void *usable = pages(PROT_READ | PROT_WRITE);
    try(usable, 65536);
    EXPECT(got == SIGUSR1);
    try(pages(PROT_READ), 65536);
    EXPECT(got == SIGSEGV && code == SI_KERNEL);
    try(pages(PROT_NONE), 65536);
    EXPECT(got == SIGSEGV && code == SI_KERNEL);
    void *gone = pages(PROT_READ);
    munmap(gone, 65536);
    try(gone, 65536);
    EXPECT(got == SIGSEGV && code == SI_KERNEL);
    die_of_it(pages(PROT_READ));
    // The end of a handler without a frame, where no stack is, and where only zeros are.
    stack_t alternate = {.ss_sp = usable, .ss_size = 65536};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV,
              &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, NULL);
    for (int protection = PROT_NONE; protection <= PROT_READ; protection += PROT_READ) {
        char *stack = pages(protection);
        got = 0;
        if (sigsetjmp(back, 1) == 0)
            __asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall" : : "r"(stack + 4096) : "memory");
        EXPECT(got == SIGSEGV && (protection != PROT_NONE || code == SI_KERNEL));
    }
    puts("every frame");
    return 0;
}
