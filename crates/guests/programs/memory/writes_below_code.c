// Writes to addresses where nothing is mapped, below 2 GiB, where an observer may keep what it has
// made of the code that ran: most fault there too, and the code runs on. An observer may be able to
// write some itself: so what is written is what was there.
// flags: -O2 -D_GNU_SOURCE
// variants: static
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "expect.h"

enum { FUNCTIONS = 1024, INSTRUCTIONS = 256, SIZE = 2 * INSTRUCTIONS + 16, PAGE = 4096 };
#define FIRST 0x50000000ul
#define LAST 0x50060000ul

static sigjmp_buf back;
static volatile uintptr_t address;
static volatile int code;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    address = (uintptr_t)info->si_addr;
    code = info->si_code;
    siglongjmp(back, 1);
}

static int faults(uintptr_t at) {
    volatile uint64_t *word = (volatile uint64_t *)at;
    if (sigsetjmp(back, 1) == 0) {
        *word = *word;
        return 0;
    }
    EXPECT(address == at && code == SEGV_MAPERR);
    return 1;
}

// Functions that return how often their only instruction increments.
static unsigned char *make_functions(void) {
    unsigned char *functions = mmap(NULL, FUNCTIONS * SIZE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(functions != MAP_FAILED);
    for (int i = 0; i < FUNCTIONS; i++) {
        unsigned char *to = functions + i * SIZE;
        *to++ = 0x31, *to++ = 0xc0;
        for (int count = 0; count < INSTRUCTIONS - i % 2; count++) *to++ = 0xff, *to++ = 0xc0;
        *to = 0xc3;
    }
    EXPECT(mprotect(functions, FUNCTIONS * SIZE, PROT_READ | PROT_EXEC) == 0);
    return functions;
}

static void call_all(const unsigned char *functions) {
    for (int i = 0; i < FUNCTIONS; i++) {
        int (*function)(void) = (int (*)(void))(uintptr_t)(functions + i * SIZE);
        EXPECT(function() == INSTRUCTIONS - i % 2);
    }
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
    EXPECT(faults(16));
    const unsigned char *functions = make_functions();
    call_all(functions);
    EXPECT(faults(16));
    unsigned long pages = (LAST - FIRST) / PAGE, faulted = 0;
    for (uintptr_t at = FIRST; at < LAST; at += PAGE) faulted += faults(at + 64);
    EXPECT(faulted > pages * 3 / 5);
    call_all(functions);
    puts("most pages cannot be written");
    return 0;
}
