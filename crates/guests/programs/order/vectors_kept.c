// Two threads take lines from each other while wide vector registers and the direction flag
// hold values that nobody may change.
// flags: -O1 -mavx2 -mno-red-zone -pthread
// needs: cpu avx2
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum { ROUNDS = 20000, LINES = 4 };

static _Alignas(64) volatile uint64_t shared[LINES][8];

#define EACH(operation)                                                                      \
    operation(0) operation(1) operation(2) operation(3) operation(4) operation(5)            \
    operation(6) operation(7) operation(8) operation(9) operation(10) operation(11)          \
    operation(12) operation(13) operation(14) operation(15)
#define LOAD(number) "vmovdqu " #number "*32(%[in]), %%ymm" #number "\n"
#define STORE(number) "vmovdqu %%ymm" #number ", " #number "*32(%[out])\n"
#define NAME(number) "ymm" #number,

static void *run(void *argument) {
    uint8_t in[16 * 32], out[16 * 32];
    for (int i = 0; i < (int)sizeof in; i++)
        in[i] = (uint8_t)(i * 7 + 1 + (argument != NULL));
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t flags;
        memset(out, 0, sizeof out);
        asm volatile(EACH(LOAD)
                     "std\n"
                     "incq (%[lines])\n"
                     "incq 64(%[lines])\n"
                     "lock incq 128(%[lines])\n"
                     "movq 192(%[lines]), %[flags]\n"
                     "movq %[flags], 200(%[lines])\n"
                     "pushfq\n"
                     "popq %[flags]\n"
                     "cld\n" EACH(STORE)
                     : [flags] "=&r"(flags)
                     : [in] "r"(in), [out] "r"(out), [lines] "r"(shared)
                     : EACH(NAME) "memory", "cc");
        EXPECT(flags & 0x400);
        EXPECT(memcmp(in, out, sizeof in) == 0);
    }
    return NULL;
}

int main(void) {
    pthread_t other;
    EXPECT(pthread_create(&other, NULL, run, "another") == 0);
    run(NULL);
    EXPECT(pthread_join(other, NULL) == 0);
    EXPECT(shared[2][0] == 2 * ROUNDS);
    return 0;
}
