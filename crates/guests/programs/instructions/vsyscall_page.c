// The three entries of the vsyscall page: they return to their callers with what system calls
// would, keep the registers that system calls change, and with a bad pointer they end in SIGSEGV.
// flags: -O2 -D_GNU_SOURCE
// variants: static, non-pie
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

#define PAGE 0xffffffffff600000ul

static sigjmp_buf back;
static volatile int ticks;

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void on_tick(int signal) {
    (void)signal;
    ticks++;
}

static int has_page(void) {
    char line[256];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, "[vsyscall]") != NULL;
    fclose(maps);
    return found;
}

// Calls an entry; rcx and r11 must be what they were.
static long enter(unsigned long entry, void *first, void *second) {
    long result;
    unsigned long rcx = 0x1234, kept;
    register unsigned long r11 asm("r11") = 0x5678;
    asm volatile("sub $128, %%rsp\n call *%%rax\n add $128, %%rsp\n mov %%r11, %[kept]"
                 : "=a"(result), "+c"(rcx), "+r"(r11), [kept] "=&b"(kept), "+D"(first), "+S"(second)
                 : "a"(entry)
                 : "rdx", "r8", "r9", "r10", "memory", "cc");
    EXPECT(rcx == 0x1234 && kept == 0x5678);
    return result;
}

int main(void) {
    if (!has_page()) {
        puts("right");
        return 0;
    }
    struct timeval now = {0};
    time_t seconds = 0;
    unsigned processor = -1u, node = -1u;
    EXPECT(enter(PAGE, &now, NULL) == 0);
    EXPECT(labs(now.tv_sec - time(NULL)) < 5);
    EXPECT(labs(enter(PAGE + 0x400, &seconds, NULL) - time(NULL)) < 5);
    EXPECT(labs(seconds - time(NULL)) < 5);
    EXPECT(enter(PAGE + 0x800, &processor, &node) == 0);
    EXPECT(processor != -1u && node != -1u);

    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(back, 1) == 0) {
        enter(PAGE, (void *)16, NULL);
        EXPECT(0);
    }
    if (sigsetjmp(back, 1) == 0) {
        enter(PAGE + 0x10, NULL, NULL);
        EXPECT(0);
    }
    // Beside signals that come all the time.
    action.sa_handler = on_tick;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (ticks < 100)
        EXPECT(enter(PAGE + 0x400, NULL, NULL) > 1000000000);
    often = (struct itimerval){0};
    setitimer(ITIMER_REAL, &often, NULL);
    puts("right");
    return 0;
}
