// Two threads read and write eight bytes that lie on two cache lines, and instructions
// that touch two different lines at once: every byte read was written by somebody.
// flags: -O1 -pthread
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum { ROUNDS = 3000 };

static _Alignas(128) unsigned char lines[256];
static uint64_t far_apart[2][16] __attribute__((aligned(64)));
static volatile int ready;

static void *write_and_read(void *argument) {
    uint64_t mine = (uint64_t)argument;
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    while (ready < 2)
        sched_yield();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t *crossing = (uint64_t *)(lines + 57 + i % 7), seen;
        __asm__ volatile("movq %1, (%0)" ::"r"(crossing), "r"(mine) : "memory");
        __asm__ volatile("movq (%1), %0" : "=r"(seen) : "r"(crossing) : "memory");
        for (int byte = 0; byte < 8; byte++) {
            unsigned char value = seen >> 8 * byte;
            EXPECT(value == 0x11 || value == 0x22);
        }
        // movs reads one line and writes another; push m does so with the stack.
        const void *from = &far_apart[i % 2][0];
        void *to = &far_apart[(i + 1) % 2][8];
        __asm__ volatile("movsq" : "+S"(from), "+D"(to)::"memory");
        __asm__ volatile("sub $128, %%rsp\n pushq (%1)\n popq %0\n add $128, %%rsp" : "=&r"(seen) : "r"(&far_apart[i % 2][8]) : "memory");
        EXPECT(seen == 0);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    memset(lines, 0x11, sizeof lines);
    for (int i = 0; i < 2; i++) {
        void *pattern = (void *)(i ? 0x2222222222222222 : 0x1111111111111111);
        EXPECT(pthread_create(&threads[i], NULL, write_and_read, pattern) == 0);
    }
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    puts("every byte was somebody's");
    return 0;
}
