// SSE to SSE4.2: arithmetic, shuffles, comparisons, conversions, string comparison, masked
// stores, checksums and the control register's rounding.
// flags: -O2 -msse4.2
// variants: threaded
#include <nmmintrin.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

static uint64_t fold(__m128i value) {
    return (uint64_t)_mm_extract_epi64(value, 0) * 31 + (uint64_t)_mm_extract_epi64(value, 1);
}

int main(void) {
    _Alignas(16) uint8_t bytes[64];
    uint64_t sum = 0;
    for (int i = 0; i < 64; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (int i = 0; i < 48; i++) {
        __m128i a = _mm_loadu_si128((void *)(bytes + i)), b = _mm_load_si128((void *)(bytes + 16));
        sum += fold(_mm_add_epi8(a, b)) ^ fold(_mm_madd_epi16(a, b)) ^ fold(_mm_sad_epu8(a, b));
        sum += fold(_mm_shuffle_epi8(a, b)) ^ fold(_mm_mullo_epi32(a, b)) ^ fold(_mm_packus_epi16(a, b));
        sum += fold(_mm_cmpgt_epi8(a, b)) ^ fold(_mm_minpos_epu16(a)) ^ fold(_mm_blendv_epi8(a, b, a));
        sum += _mm_movemask_epi8(a) + _mm_cmpestri(a, 9, b, 16, _SIDD_CMP_EQUAL_ANY);
        sum = _mm_crc32_u64(sum, fold(a)) + (uint64_t)_mm_popcnt_u64(sum);
    }
    _Alignas(16) uint8_t target[16] = {0};
    __m128i mask = _mm_set_epi8(-1, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0);
    _mm_maskmoveu_si128(_mm_load_si128((void *)bytes), mask, (char *)target);
    EXPECT(target[0] == 0 && target[1] == bytes[1] && target[12] == bytes[12] && target[15] == bytes[15]);
    _mm_stream_si128((void *)target, _mm_set1_epi8(3));
    _mm_sfence();
    EXPECT(target[5] == 3);

    volatile double third = 3.0;
    unsigned control = _mm_getcsr();
    _mm_setcsr((control & ~0x6000u) | 0x4000); // Upward.
    double up = 1.0 / third;
    _mm_setcsr((control & ~0x6000u) | 0x2000); // Downward.
    double down = 1.0 / third;
    _mm_setcsr(control);
    EXPECT(up > down);
    __m128d roots = _mm_sqrt_pd(_mm_set_pd(2.0, 3.0));
    printf("%016lx %.17g %.17g %d\n", sum, _mm_cvtsd_f64(roots), up,
           _mm_cvtsd_si32(_mm_set_sd(2.5)));
    return 0;
}
