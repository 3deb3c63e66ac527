// Registers of AVX-512 before an instruction: zmm5 (z), zmm20 (w) and k3 (k). It tells for each how often,
// and the sum of the mask, or of numbers that follow from all bytes, each times its number.
// flags: -O1 -mavx512f -mavx512bw -no-pie -fno-pie -fcf-protection=none
// needs: cpu avx512f, cpu avx512bw
// compare: status
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 2000

extern const char marked_at[];

static uint64_t digest(const unsigned char *bytes)
{
    uint64_t all = 1;
    for (int i = 0; i < 64; i++)
        all = (all ^ bytes[i]) * 0x100000001b3;
    return all;
}

__attribute__((noinline)) static void mark(const unsigned char (*values)[64])
{
    __asm__ volatile("vmovups (%0), %%zmm5\n\tvmovups 64(%0), %%zmm20\n\tkmovq 128(%0), %%k3\n\t"
                     ".globl marked_at\nmarked_at:\n\tnop\n\tvzeroupper"
                     : : "r"(values) : "xmm5", "xmm20", "k3");
}

int main(void)
{
    uint64_t seed = 1, sums[3] = {0};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        unsigned char values[3][64];
        uint64_t mask;
        for (int i = 0; i < 192; i++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            values[i / 64][i % 64] = seed >> 56;
        }
        memcpy(&mask, values[2], 8);
        mark(values);
        sums[0] += round * digest(values[0]);
        sums[1] += round * digest(values[1]);
        sums[2] += round * mask;
    }
    for (int i = 0; i < 3; i++)
        printf("%lx %c %d %lx\n", (unsigned long)marked_at, "zwk"[i], ROUNDS, sums[i]);
    return 0;
}
