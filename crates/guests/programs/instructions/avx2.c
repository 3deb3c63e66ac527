// AVX and AVX2: 256-bit arithmetic, fused multiply-add, permutes, masked loads and stores
// that must not touch what their mask leaves out, and clean upper halves around libm.
// flags: -O2 -mavx2 -mfma -D_GNU_SOURCE
// libraries: -lm
// needs: cpu avx2, cpu fma
// variants: threaded
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

int main(void) {
    _Alignas(32) double values[64];
    double sum = 0;
    for (int i = 0; i < 64; i++)
        values[i] = 1.0 / (i + 1);
    for (int i = 0; i + 4 <= 64; i += 3) {
        __m256d a = _mm256_loadu_pd(values + i), b = _mm256_load_pd(values);
        __m256d c = _mm256_fmadd_pd(a, b, _mm256_permute4x64_pd(a, 0x1b));
        c = _mm256_add_pd(c, _mm256_unpackhi_pd(a, b));
        _Alignas(32) double four[4];
        _mm256_store_pd(four, c);
        sum += four[0] + four[1] * 2 + four[2] * 3 + four[3] * 4 + exp(four[0]) * log(four[1]);
    }
    // The page behind is not there: only the mask keeps these accesses from a fault.
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    int *edge = (int *)(pages + 4096 - 12);
    __m256i mask = _mm256_setr_epi32(-1, -1, -1, 0, 0, 0, 0, 0);
    _mm256_maskstore_epi32(edge, mask, _mm256_set1_epi32(7));
    __m256i back = _mm256_maskload_epi32(edge, mask);
    EXPECT(_mm256_extract_epi32(back, 2) == 7 && _mm256_extract_epi32(back, 3) == 0);
    _mm256_maskstore_ps((float *)edge, mask, _mm256_set1_ps(2.5f));
    EXPECT(((float *)edge)[2] == 2.5f);
    printf("%.15g\n", sum);
    return 0;
}
