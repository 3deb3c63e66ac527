// Vector registers before an instruction, in two threads. It tells for xmm0 (x), ymm13 (y) and zmm5 (z,
// with zeros where the processor has no more than ymm5) how often, and the sum of numbers that follow
// from all bytes, each times its number.
// flags: -O1 -mavx -no-pie -fno-pie -fcf-protection=none
// libraries: -pthread
// needs: cpu avx
// compare: status
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 2000

extern const char marked_at[];

static uint64_t digest(const unsigned char *bytes, int count)
{
    uint64_t all = 1;
    for (int i = 0; i < count; i++)
        all = (all ^ bytes[i]) * 0x100000001b3;
    return all;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void mark(const unsigned char (*values)[32])
{
    __asm__ volatile("vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm13\n\tvmovups 64(%0), %%ymm5\n\t"
                     ".globl marked_at\nmarked_at:\n\tnop\n\tvzeroupper"
                     : : "r"(values) : "xmm0", "xmm5", "xmm13");
}

static void *rounds(void *start)
{
    uint64_t seed = (uintptr_t)start, sums[3] = {0};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        unsigned char values[3][32], third[64] = {0};
        for (int i = 0; i < 96; i++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            values[i / 32][i % 32] = seed >> 56;
        }
        memcpy(third, values[2], 32);
        mark(values);
        sums[0] += round * digest(values[0], 16);
        sums[1] += round * digest(values[1], 32);
        sums[2] += round * digest(third, 64);
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 3; i++)
        printf("%lx %c %d %lx\n", (unsigned long)marked_at, "xyz"[i], ROUNDS, sums[i]);
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, rounds, (void *)2);
    rounds((void *)1);
    pthread_join(thread, 0);
    return 0;
}
