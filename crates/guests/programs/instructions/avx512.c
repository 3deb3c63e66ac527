// AVX-512: mask registers, masked arithmetic and memory, expand, compress, ternary logic,
// conflict detection, broadcasts from memory, and all 32 registers kept across signals.
// flags: -O2 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512cd -D_GNU_SOURCE
// needs: cpu avx512f, cpu avx512vl, cpu avx512bw, cpu avx512dq, cpu avx512cd
// variants: threaded
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

static volatile int handled;

static void handler(int signal) {
    __asm__ volatile("vpxord %%zmm17, %%zmm17, %%zmm17\n kxorw %%k5, %%k5, %%k5" ::: "xmm17", "k5");
    handled = signal;
}

int main(void) {
    _Alignas(64) int32_t numbers[64];
    uint64_t sum = 0;
    for (int i = 0; i < 64; i++)
        numbers[i] = i * 1234567 ^ i << 20;
    for (int i = 0; i + 16 <= 64; i += 5) {
        __m512i a = _mm512_loadu_si512(numbers + i), b = _mm512_set1_epi32(numbers[i]);
        __mmask16 mask = _mm512_cmpgt_epi32_mask(a, b);
        __m512i c = _mm512_mask_add_epi32(a, mask, a, b);
        c = _mm512_ternarylogic_epi32(c, a, b, 0x96);
        c = _mm512_xor_si512(c, _mm512_conflict_epi32(_mm512_and_si512(a, _mm512_set1_epi32(7))));
        sum = sum * 31 + (uint32_t)_mm512_reduce_add_epi32(c) + mask;
        int32_t packed[16] = {0};
        _mm512_mask_compressstoreu_epi32(packed, mask, a);
        __m512i spread = _mm512_maskz_expandloadu_epi32(mask, packed);
        EXPECT(_mm512_mask_cmpneq_epi32_mask(mask, spread, a) == 0);
        sum += (uint32_t)packed[0];
    }
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    int *edge = (int *)(pages + 4096 - 12);
    _mm512_mask_storeu_epi32(edge, 7, _mm512_set1_epi32(9));
    __m512i back = _mm512_maskz_loadu_epi32(7, edge);
    EXPECT(_mm512_reduce_add_epi32(back) == 27);

    signal(SIGUSR1, handler);
    uint64_t high;
    uint32_t mask;
    long pid = getpid();
    // kill(pid, SIGUSR1) without a function call, which might use the registers itself.
    __asm__ volatile(
        "vpternlogd $0xff, %%zmm17, %%zmm17, %%zmm17\n mov $0x5a5a, %%eax\n kmovd %%eax, %%k5\n"
        "mov $62, %%eax\n syscall\n"
        "vextracti32x4 $3, %%zmm17, %%xmm0\n vmovq %%xmm0, %0\n kmovd %%k5, %1\n"
        : "=r"(high), "=r"(mask)
        : "D"(pid), "S"((long)SIGUSR1)
        : "rax", "rcx", "r11", "xmm0", "xmm17", "k5", "memory");
    EXPECT(handled == SIGUSR1 && high == ~0ull && mask == 0x5a5a);
    printf("%lu %d\n", sum, handled);
    return 0;
}
