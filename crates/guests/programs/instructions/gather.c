// Gathers of AVX2: every index and element width, masks, negative indices.
// flags: -O2 -mavx2 -D_GNU_SOURCE
// needs: cpu avx2
// variants: threaded
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>

#include "expect.h"

int main(void) {
    static int32_t words[1024];
    static int64_t longs[1024];
    for (int i = 0; i < 1024; i++) {
        words[i] = i * 3;
        longs[i] = i * 5ll << 20;
    }
    int64_t sum = 0;
    for (int i = 0; i < 100; i++) {
        __m256i index = _mm256_setr_epi32(i, -i, 2 * i, 5, 500 - i, i * i % 500, 7, -500);
        __m256i got = _mm256_i32gather_epi32(words + 512, index, 4);
        int32_t eight[8];
        _mm256_storeu_si256((void *)eight, got);
        EXPECT(eight[1] == words[512 - i] && eight[7] == words[12]);
        __m256i pairs = _mm256_i64gather_epi64((void *)longs, _mm256_setr_epi64x(i, 2, 3 * i, 900), 8);
        sum += eight[5] + _mm256_extract_epi64(pairs, 2);
        __m128i narrow = _mm256_i64gather_epi32(words, _mm256_setr_epi64x(4 * i, 8, 12, 16), 1);
        EXPECT(_mm_extract_epi32(narrow, 0) == words[i] && _mm_extract_epi32(narrow, 3) == words[4]);
    }
    // Elements that the mask leaves out are not read: their addresses do not exist.
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    int *edge = (int *)(pages + 4096 - 8);
    edge[0] = 40;
    edge[1] = 41;
    __m256i mask = _mm256_setr_epi32(-1, 0, -1, 0, 0, 0, 0, 0);
    __m256i index = _mm256_setr_epi32(0, 2, 1, 3, 100, 1000, 2, 2);
    __m256i got = _mm256_mask_i32gather_epi32(_mm256_set1_epi32(-1), edge, index, mask, 4);
    EXPECT(_mm256_extract_epi32(got, 0) == 40 && _mm256_extract_epi32(got, 2) == 41);
    EXPECT(_mm256_extract_epi32(got, 1) == -1);
    printf("%ld\n", sum);
    return 0;
}
