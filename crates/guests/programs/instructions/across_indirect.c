// A register keeps its value, or gets the one that it is given, across indirect jumps and calls and returns,
// while signals' handlers make others. An observer may add to it at instructions that are marked: the argument
// says how much.
// flags: -O1 -D_GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>

#include "expect.h"

enum { WAYS = 12, ROUNDS = 400000 };

void way_0(void), way_1(void), way_2(void), way_3(void), way_4(void), way_5(void);
void way_6(void), way_7(void), way_8(void), way_9(void), way_10(void), way_11(void);

void (*ways[WAYS])(void) = {way_0, way_1, way_2, way_3, way_4,  way_5,
                            way_6, way_7, way_8, way_9, way_10, way_11};

// An instruction that does nothing, and occurs nowhere else.
#define MARK "nopl 0x5a(%r11)\n "

// What each does to r11 shows in `expected`. Only r11 and rax change.
asm(".text\n"
    "way_0: " MARK "ret\n"
    "way_1: mov $0x1234567, %r11\n ret\n"
    "way_2: add $3, %r11\n ret\n"
    "way_3: jmp *ways+0(%rip)\n"
    "way_4: " MARK "add $1, %r11\n jmp *ways+16(%rip)\n"
    "way_5: lea 7(%r11), %r11\n " MARK "call *ways+16(%rip)\n lea (%r11, %r11), %r11\n ret\n"
    "way_6: lea way_2(%rip), %rax\n " MARK "jmp *%rax\n"
    "way_7: push %rbx\n mov %r11, %rbx\n mov $5, %r11d\n call *ways+0(%rip)\n add %rbx, %r11\n pop %rbx\n ret\n"
    "way_8: push $77\n pop %r11\n ret\n"
    "way_9: movq %r11, %xmm0\n paddq %xmm0, %xmm0\n movq %xmm0, %r11\n ret\n"
    "way_10: xor %eax, %eax\n cmp $0, %rax\n cmove %r11, %rax\n setne %r11b\n add %rax, %r11\n ret\n"
    "way_11: call *ways+0(%rip)\n call way_2\n " MARK "call *ways+0(%rip)\n ret\n");

static uint64_t added;

static uint64_t expected(int way, uint64_t value) {
    switch (way) {
    case 0:
    case 3:
        return value + added;
    case 1:
        return 0x1234567;
    case 2:
        return value + 3;
    case 6:
        return value + added + 3;
    case 11:
        return value + 3 * added + 3;
    case 4:
        return value + added + 4;
    case 5:
        return (value + added + 10) * 2;
    case 7:
        return value + added + 5;
    case 8:
        return 77;
    case 9:
        return value * 2;
    case 10:
        return (value & ~UINT64_C(0xff)) + value;
    default:
        return value;
    }
}

static inline uint64_t go(int way, uint64_t value) {
    register uint64_t r11 asm("r11") = value;
    asm volatile("sub $128, %%rsp\n call *%1\n add $128, %%rsp"
                 : "+r"(r11)
                 : "r"(ways[way])
                 : "rax", "xmm0", "cc", "memory");
    return r11;
}

static volatile sig_atomic_t handled;

static void handle(int signal) {
    uint64_t value = (uint64_t)signal << 40;
    for (int way = 0; way < WAYS; way++)
        EXPECT(go(way, value + way) == expected(way, value + way));
    handled++;
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}};
    uint64_t state = 1;
    if (count > 1)
        added = atoi(arguments[1]);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < ROUNDS || handled < 20; round++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        int way = (state >> 33) % WAYS;
        EXPECT(go(way, state) == expected(way, state));
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    puts("kept");
    return 0;
}
