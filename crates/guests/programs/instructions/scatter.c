// Scatters and gathers of AVX-512, with elements that overlap (the last one stays) and
// masks that leave out what does not exist.
// flags: -O2 -mavx512f -D_GNU_SOURCE
// needs: cpu avx512f
// variants: threaded
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>

#include "expect.h"

int main(void) {
    static int32_t words[256];
    static double doubles[64];
    __m512i ascending = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int i = 1; i < 10; i++) {
        __m512i index = _mm512_mullo_epi32(ascending, _mm512_set1_epi32(i));
        _mm512_i32scatter_epi32(words, index, _mm512_add_epi32(index, _mm512_set1_epi32(1000)), 4);
        __m512i back = _mm512_i32gather_epi32(index, words, 4);
        EXPECT(_mm512_reduce_add_epi32(back) == 16000 + i * 120);
    }
    _mm512_i32scatter_epi32(words, _mm512_set1_epi32(77), ascending, 4);
    EXPECT(words[77] == 15);
    _mm512_i32scatter_pd(doubles, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7), 8);
    EXPECT(doubles[7] == 0 && doubles[0] == 7);

    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    int *edge = (int *)(pages + 4096 - 8);
    _mm512_mask_i32scatter_epi32(edge, 3, ascending, _mm512_set1_epi32(6), 4);
    EXPECT(edge[0] == 6 && edge[1] == 6);
    unsigned long sum = 0;
    for (int i = 0; i < 256; i++)
        sum = sum * 3 + (unsigned)words[i];
    printf("%lu\n", sum);
    return 0;
}
