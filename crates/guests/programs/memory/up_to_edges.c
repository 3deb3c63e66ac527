// Tells where bytes can be read and how many of them, across the end of memory that is mapped,
// before memory that may not be read, and where nothing is, while a timer interrupts it.
// flags: -O1 -D_GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "expect.h"

enum { PAGE = 4096 };

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    (void)signal;
    ticks++;
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n std\n cld" ::: "xmm0", "rcx", "r8", "r9");
}

// At the address are so many bytes of those that are looked for; each says where it is.
__attribute__((noinline)) void readable(const unsigned char *at, uint64_t looked_for, uint64_t there) {
    __asm__ volatile("" ::"r"(at), "r"(looked_for), "r"(there) : "memory");
}

static void look(unsigned char *end) {
    for (unsigned char *at = end - PAGE; at < end; at++)
        *at = (unsigned char)((uintptr_t)at * 7 + 1);
    for (uint64_t length = 0; length <= 72; length++)
        for (uint64_t there = 0; there <= 80; there++)
            readable(end - there, length, there < length ? there : length);
    for (uint64_t length = 100; length < 1000; length += 77)
        for (uint64_t there = 0; there < 1000; there += 13)
            readable(end - there, length, there < length ? there : length);
    readable((unsigned char *)8, 16, 0);
    readable((unsigned char *)0x8000000000000000, 16, 0);
    readable((unsigned char *)-8, 16, 0);
}

int main(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval interval = {{0, 200}, {0, 200}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &interval, NULL);
    unsigned char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
    EXPECT(mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
    EXPECT(munmap(pages + 3 * PAGE, PAGE) == 0);
    do {
        look(pages + PAGE);
        look(pages + 3 * PAGE);
    } while (ticks < 20);
    printf("looked\n");
    return 0;
}
