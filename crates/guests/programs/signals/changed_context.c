// A handler sends the program elsewhere by changing the saved instruction pointer, stack
// pointer and argument register; and swaps in a context of its own making.
// flags: -O1 -D_GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#include "expect.h"

static char *other_stack;
static ucontext_t back;

static void landed(long argument) {
    char here;
    EXPECT(argument == 77 && &here > other_stack && &here < other_stack + 65536);
    puts("landed");
    setcontext(&back);
}

static void redirect(int signal, siginfo_t *information, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    EXPECT(signal == SIGUSR1 && information != NULL);
    registers[REG_RIP] = (greg_t)landed;
    registers[REG_RDI] = 77;
    registers[REG_RSP] = (greg_t)(other_stack + 65536 - 8);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = redirect, .sa_flags = SA_SIGINFO};
    volatile int times = 0;
    other_stack = aligned_alloc(16, 65536);
    sigaction(SIGUSR1, &action, NULL);
    getcontext(&back);
    if (times++ < 3)
        raise(SIGUSR1);
    printf("back %d times\n", times - 1);
    return 0;
}
