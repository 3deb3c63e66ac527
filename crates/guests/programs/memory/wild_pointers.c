// Wild pointers: poisoned, cut to 32 bits, multiplied. Reads and writes fault at their addresses,
// where nothing is mapped; so do large ones, and string instructions. What an observer keeps in
// memory is not the program's.
// flags: -O2 -D_GNU_SOURCE -pthread
// variants: static, threaded, unoptimised
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static const uintptr_t WILD[] = {
    0x5a5a5a58,  0x6ffffff8,  0x70000040,   0x7f7f7f78,   0x80000000,  0xa5a5a5a0,
    0xabababa8,  0xbaadf008,  0xcafebab8,   0xccccccc8,   0xdeadbee8,  0xfeeefee8,
    0x123456788, 0x200000000, 0x1234567890, 0xdeadbeef00, 0x41414141410,
};

static __thread sigjmp_buf back;
static __thread uintptr_t address;
static __thread int code;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    address = (uintptr_t)info->si_addr;
    code = info->si_code;
    siglongjmp(back, 1);
}

#define FAULTS(first, last, access)                                                            \
    do {                                                                                       \
        if (sigsetjmp(back, 1) == 0) {                                                         \
            access;                                                                            \
            EXPECT(!"no fault");                                                               \
        }                                                                                      \
        EXPECT(address >= (first) && address <= (last) && code == SEGV_MAPERR);                \
    } while (0)

static void *go_wild(void *nothing) {
    char eight[8] = {0};
    for (size_t i = 0; i < sizeof WILD / sizeof *WILD; i++) {
        uintptr_t wild = WILD[i];
        void *to = (void *)wild;
        const void *from = to;
        size_t count = 8;
        FAULTS(wild, wild, (void)*(volatile int *)wild);
        FAULTS(wild, wild, *(volatile int *)wild = 7);
        FAULTS(wild, wild, (*(volatile long *)wild)++);
        FAULTS(wild, wild, __atomic_fetch_add((long *)wild, 1, __ATOMIC_SEQ_CST));
        FAULTS(wild, wild + 7, asm volatile("rep movsb" : "+D"(to), "+c"(count) : "S"(eight) : "memory"));
        to = eight;
        FAULTS(wild, wild + 7, asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory"));
        FAULTS(wild, wild + 8191, memset((void *)wild, 0x41, 8192));
    }
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    go_wild(NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, go_wild, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    // Nothing has suffered.
    char text[64];
    sprintf(text, "%d %f", 3, 2.5);
    puts(text);
    return system("echo child");
}
