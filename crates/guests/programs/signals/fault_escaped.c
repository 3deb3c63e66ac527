// Faults of several kinds, each left by siglongjmp: null, a jump into nothing, an illegal
// instruction, a breakpoint, the end of a file, an unaligned vector access.
// flags: -O1 -D_GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "expect.h"

static sigjmp_buf escape;
static siginfo_t last;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    last = *information;
    siglongjmp(escape, signal);
}

#define CAUGHT(statement)                      \
    ({                                         \
        int signal = sigsetjmp(escape, 1);     \
        if (signal == 0) {                     \
            statement;                         \
        }                                      \
        signal;                                \
    })

int main(void) {
    int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
    for (int i = 0; i < 5; i++) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        sigaction(signals[i], &action, NULL);
    }
    char *volatile nowhere = (char *)16;
    EXPECT(CAUGHT(*nowhere = 1) == SIGSEGV && last.si_addr == nowhere);
    EXPECT(last.si_code == SEGV_MAPERR);
    void (*volatile into_nothing)(void) = (void (*)(void))0x1234000;
    EXPECT(CAUGHT(into_nothing()) == SIGSEGV && last.si_addr == (void *)0x1234000);
    void *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(unsigned char *)data = 0xc3;
    void (*volatile into_data)(void) = (void (*)(void))data;
    EXPECT(CAUGHT(into_data()) == SIGSEGV && last.si_addr == data && last.si_code == SEGV_ACCERR);
    EXPECT(CAUGHT(__asm__ volatile("ud2")) == SIGILL);
    EXPECT(CAUGHT(__asm__ volatile("int3")) == SIGTRAP);
    EXPECT(CAUGHT(__asm__ volatile("hlt")) == SIGSEGV && last.si_code == SI_KERNEL);

    char name[] = "/tmp/guest-fault-XXXXXX";
    int file = mkstemp(name);
    unlink(name);
    EXPECT(ftruncate(file, 4096) == 0);
    volatile char *mapping = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    EXPECT(mapping[4095] == 0);
    EXPECT(CAUGHT(mapping[4096]) == SIGBUS && last.si_addr == (void *)(mapping + 4096));

    static _Alignas(16) char bytes[32];
    EXPECT(CAUGHT(__asm__ volatile("movaps (%0), %%xmm0" ::"r"(bytes + 1) : "xmm0")) == SIGSEGV);
    EXPECT(CAUGHT(__asm__ volatile("xor %%ecx, %%ecx\n xor %%edx, %%edx\n div %%ecx" ::: "rax", "rcx", "rdx")) ==
               SIGFPE && last.si_code == FPE_INTDIV);
    puts("escaped each time");
    return 0;
}
