// A handler makes a protected page accessible and returns; the faulting instruction, which
// is a different one each time, then does its work exactly once.
// flags: -O2 -D_GNU_SOURCE
// variants: threaded
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "expect.h"

static char *page;
static volatile int faults;

static void repair(int signal, siginfo_t *information, void *context) {
    ucontext_t *state = context;
    EXPECT(signal == SIGSEGV && information->si_code == SEGV_ACCERR);
    EXPECT((char *)information->si_addr >= page && (char *)information->si_addr < page + 4096);
    EXPECT(state->uc_mcontext.gregs[REG_TRAPNO] == 14);
    EXPECT(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    faults++;
}

static void protect(void) {
    EXPECT(mprotect(page, 4096, PROT_NONE) == 0);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, NULL);

    protect();
    *(volatile int *)(page + 8) = 5;
    protect();
    __asm__ volatile("addl $3, (%0)" ::"r"(page + 8) : "memory");
    protect();
    long old = 10;
    __asm__ volatile("lock xaddq %0, (%1)" : "+r"(old) : "r"(page + 8) : "memory");
    EXPECT(old == 8);
    protect();
    __asm__ volatile("sub $128, %%rsp\n pushq (%1)\n popq %0\n add $128, %%rsp" : "=&r"(old) : "r"(page + 8) : "memory");
    EXPECT(old == 18);
    // A string instruction is interrupted in its middle, where the page starts.
    static char zeros[4096];
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = pages + 4096;
    memset(zeros, 7, sizeof zeros);
    protect();
    void *from = zeros, *to = pages + 4096 - 100;
    size_t count = 200;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    EXPECT(count == 0 && to == page + 100 && from == zeros + 200);
    EXPECT(pages[3995] == 0 && pages[3996] == 7 && page[99] == 7 && page[100] == 0);
    printf("%d faults\n", faults);
    return 0;
}
