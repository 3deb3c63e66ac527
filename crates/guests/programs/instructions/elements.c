// Instructions that access several elements or a part of them: gathers, scatters, masked and
// compressed vectors, tiles. Each prints what it accesses, computed from its mask and indexes.
// Elements left out lie on pages that do not exist. Another thread uses the same memory.
// flags: -O2 -D_GNU_SOURCE -pthread
// needs: cpu avx2
// compare: status
#include <cpuid.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "expect.h"

enum { POOL = 1 << 14, TIMES = 40 };
static char *pool; /* its end; behind it is a page that does not exist */
static char *middle;
static volatile int done;
static _Alignas(64) union { int32_t d[16]; int64_t q[8]; } indexes, vector_mask;
static uint64_t mask;
/* How often the carry flag was still set behind an instruction. */
static int carried __attribute__((used));

static uint64_t noise(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void expect(const char *pc, char kind, const char *address, unsigned size)
{
    printf("%lx %c %lx %u\n", (long)pc, kind, (long)address, size);
}

/* One line for each run of elements that are not left out. */
static void runs(const char *pc, char kind, const char *base, unsigned size, int count)
{
    for (int i = 0, run = 0; i <= count; i++) {
        if (i < count && mask >> i & 1) {
            run++;
        } else if (run) {
            expect(pc, kind, base + (i - run) * size, run * size);
            run = 0;
        }
    }
}

static void new_mask(int count)
{
    mask = noise() | noise();
    if (noise() % 8 == 0)
        mask = noise() % 2 ? 0 : -1;
    if (count < 64)
        mask &= (1ull << count) - 1;
}

/* The same mask as the top bits of a vector's elements. */
static void spread_mask(int size, int count)
{
    memset(&vector_mask, 0, sizeof vector_mask);
    for (int i = 0; i < count; i++)
        if (mask >> i & 1)
            ((char *)&vector_mask)[i * size + size - 1] = (char)0x80;
}

static void new_indexes(int size, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t near = (int64_t)(noise() % 600) - 300, far = size == 4 ? 0x7ffffff0 : 1ll << 60;
        int64_t index = mask >> i & 1 ? near : far;
        if (size == 4)
            indexes.d[i] = (int32_t)index;
        else
            indexes.q[i] = index;
    }
}

static void elements(const char *pc, char kind, int size, int index_size, int scale, int count)
{
    for (int i = 0; i < count; i++) {
        int64_t index = index_size == 4 ? indexes.d[i] : indexes.q[i];
        if (mask >> i & 1)
            expect(pc, kind, middle + index * scale + 3, size);
    }
}

/* A place for `count` elements of which the last that counts ends where the memory ends. */
static char *edge(int size, int count)
{
    int last = count;
    while (last > 0 && !(mask >> (last - 1) & 1))
        last--;
    return noise() % 2 ? pool - last * size : middle + noise() % 128;
}

#define AT(label) ".globl at_" #label "\nat_" #label ": "
#define DECLARE(label) extern const char at_##label[]
#define CLOBBERED "xmm0", "xmm1", "xmm2", "memory"

#define GATHER(label, code, data, index, size, index_size, scale, count)                          \
    DECLARE(label);                                                                               \
    static __attribute__((noinline)) void label(void)                                             \
    {                                                                                             \
        new_mask(count), new_indexes(index_size, count), spread_mask(size, count);                \
        __asm__ volatile("vmovdqu %0, %%ymm1\n vmovdqu %1, %%ymm2\n stc\n" AT(label) code " %%"   \
                         data "2, 3(%2,%%" index "1," #scale "), %%" data "0\n vzeroupper\n"       \
                         "adcl $0, carried(%%rip)"                                                 \
                         ::"m"(indexes), "m"(vector_mask), "r"(middle) : CLOBBERED);               \
        elements(at_##label, 'r', size, index_size, scale, count);                                \
    }
GATHER(gather_dd, "vpgatherdd", "ymm", "ymm", 4, 4, 4, 8)
GATHER(gather_dq, "vpgatherdq", "ymm", "xmm", 8, 4, 8, 4)
GATHER(gather_qd, "vpgatherqd", "xmm", "ymm", 4, 8, 1, 4)
GATHER(gather_qq, "vpgatherqq", "ymm", "ymm", 8, 8, 2, 4)
GATHER(gather_ps, "vgatherqps", "xmm", "xmm", 4, 8, 8, 2)
GATHER(gather_pd, "vgatherdpd", "xmm", "xmm", 8, 4, 4, 2)

DECLARE(gather_whole);
static __attribute__((noinline)) void gather_whole(void)
{
    mask = 0xff, new_indexes(4, 8);
    __asm__ volatile("vmovdqu %0, %%ymm1\n vpcmpeqd %%ymm2, %%ymm2, %%ymm2\n" AT(gather_whole)
                     "vpgatherdd %%ymm2, 3(%1,%%ymm1,4), %%ymm0\n vzeroupper"
                     ::"m"(indexes), "r"(middle) : CLOBBERED);
    elements(at_gather_whole, 'r', 4, 4, 4, 8);
}

#define MASKMOVE(label, code, data, size, count)                                                  \
    DECLARE(label##_load);                                                                        \
    DECLARE(label##_store);                                                                       \
    static __attribute__((noinline)) void label(void)                                             \
    {                                                                                             \
        new_mask(count), spread_mask(size, count);                                                \
        char *place = edge(size, count);                                                          \
        __asm__ volatile("vmovdqu %0, %%ymm1\n stc\n" AT(label##_load) code " (%1), %%" data      \
                         "1, %%" data "0\n" AT(label##_store) code " %%" data "0, %%" data         \
                         "1, (%1)\n vzeroupper\n adcl $0, carried(%%rip)"                          \
                         ::"m"(vector_mask), "r"(place) : CLOBBERED);                              \
        runs(at_##label##_load, 'r', place, size, count);                                         \
        runs(at_##label##_store, 'w', place, size, count);                                        \
    }
MASKMOVE(maskmov_ps, "vmaskmovps", "ymm", 4, 8)
MASKMOVE(maskmov_pd, "vmaskmovpd", "xmm", 8, 2)
MASKMOVE(maskmov_d, "vpmaskmovd", "xmm", 4, 4)
MASKMOVE(maskmov_q, "vpmaskmovq", "ymm", 8, 4)

DECLARE(bytes_sse);
DECLARE(bytes_mmx);
static __attribute__((noinline)) void bytes(void)
{
    new_mask(16), spread_mask(1, 16);
    char *place = middle + noise() % 64;
    __asm__ volatile("movdqu %0, %%xmm1\n pxor %%xmm0, %%xmm0\n" AT(bytes_sse)
                     "maskmovdqu %%xmm1, %%xmm0" ::"m"(vector_mask), "D"(place) : CLOBBERED);
    runs(at_bytes_sse, 'w', place, 1, 16);
    mask &= 0xff;
    __asm__ volatile("movq %0, %%mm1\n pxor %%mm0, %%mm0\n" AT(bytes_mmx)
                     "maskmovq %%mm1, %%mm0\n emms" ::"m"(vector_mask), "D"(place) : CLOBBERED);
    runs(at_bytes_mmx, 'w', place, 1, 8);
}

/* AVX-512. */
#define GATHER_512(label, code, data, index, size, index_size, scale, count)                      \
    DECLARE(label);                                                                               \
    static __attribute__((noinline)) void label(void)                                             \
    {                                                                                             \
        new_mask(count), new_indexes(index_size, count);                                          \
        __asm__ volatile("vmovdqu64 %0, %%zmm1\n kmovq %1, %%k1\n" AT(label) code " 3(%2,%%" index \
                         "1," #scale "), %%" data "0%{%%k1%}\n vzeroupper"                          \
                         ::"m"(indexes), "m"(mask), "r"(middle) : CLOBBERED);                      \
        elements(at_##label, 'r', size, index_size, scale, count);                                \
    }
GATHER_512(gather_16, "vpgatherdd", "zmm", "zmm", 4, 4, 4, 16)
GATHER_512(gather_8, "vgatherqpd", "zmm", "zmm", 8, 8, 8, 8)
GATHER_512(gather_narrow, "vgatherqps", "xmm", "ymm", 4, 8, 1, 4)

#define SCATTER(label, code, data, index, size, index_size, scale, count)                         \
    DECLARE(label);                                                                               \
    static __attribute__((noinline)) void label(void)                                             \
    {                                                                                             \
        new_mask(count), new_indexes(index_size, count);                                          \
        __asm__ volatile("vmovdqu64 %0, %%zmm1\n kmovq %1, %%k1\n" AT(label) code " %%" data        \
                         "0, 3(%2,%%" index "1," #scale ")%{%%k1%}\n vzeroupper"                    \
                         ::"m"(indexes), "m"(mask), "r"(middle) : CLOBBERED);                      \
        elements(at_##label, 'w', size, index_size, scale, count);                                \
    }
SCATTER(scatter_16, "vpscatterdd", "zmm", "zmm", 4, 4, 4, 16)
SCATTER(scatter_8, "vscatterdpd", "zmm", "ymm", 8, 4, 8, 8)

DECLARE(scatter_whole);
static __attribute__((noinline)) void scatter_whole(void)
{
    mask = 0xffff, new_indexes(4, 16);
    __asm__ volatile("vmovdqu64 %0, %%zmm1\n kxnorw %%k0, %%k0, %%k1\n" AT(scatter_whole)
                     "vpscatterdd %%zmm0, 3(%1,%%zmm1,4)%{%%k1%}\n vzeroupper"
                     ::"m"(indexes), "r"(middle) : CLOBBERED);
    elements(at_scatter_whole, 'w', 4, 4, 4, 16);
}

#define MASKED(label, code, data, size, count)                                                    \
    DECLARE(label##_load);                                                                        \
    DECLARE(label##_store);                                                                       \
    static __attribute__((noinline)) void label(void)                                             \
    {                                                                                             \
        new_mask(count);                                                                          \
        char *place = edge(size, count);                                                          \
        __asm__ volatile("kmovq %0, %%k1\n" AT(label##_load) code " (%1), %%" data                 \
                         "0%{%%k1%}\n" AT(label##_store) code " %%" data                            \
                         "0, (%1)%{%%k1%}\n vzeroupper" ::"m"(mask), "r"(place) : CLOBBERED);      \
        runs(at_##label##_load, 'r', place, size, count);                                         \
        runs(at_##label##_store, 'w', place, size, count);                                        \
    }
MASKED(move_b, "vmovdqu8", "zmm", 1, 64)
MASKED(move_w, "vmovdqu16", "ymm", 2, 16)
MASKED(move_d, "vmovdqu32", "zmm", 4, 16)
MASKED(move_q, "vmovupd", "xmm", 8, 2)

DECLARE(add_masked);
DECLARE(add_broadcast);
DECLARE(broadcast);
DECLARE(narrow);
static __attribute__((noinline)) void arithmetic(void)
{
    new_mask(16);
    char *place = edge(4, 16);
    __asm__ volatile("kmovq %0, %%k1\n" AT(add_masked) "vpaddd (%1), %%zmm1, %%zmm0%{%%k1%}\n vzeroupper"
                     ::"m"(mask), "r"(place) : CLOBBERED);
    runs(at_add_masked, 'r', place, 4, 16);
    if (noise() % 2)
        mask = 0;
    place = mask ? middle : pool;
    __asm__ volatile("kmovq %0, %%k1\n" AT(add_broadcast)
                     "vpaddd (%1)%{1to16%}, %%zmm1, %%zmm0%{%%k1%}\n" AT(broadcast)
                     "vpbroadcastd (%1), %%zmm0%{%%k1%}\n vzeroupper"
                     ::"m"(mask), "r"(place) : CLOBBERED);
    if (mask) {
        expect(at_add_broadcast, 'r', place, 4);
        expect(at_broadcast, 'r', place, 4);
    }
    new_mask(8);
    place = edge(4, 8);
    __asm__ volatile("kmovq %0, %%k1\n" AT(narrow) "vpmovqd %%zmm0, (%1)%{%%k1%}\n vzeroupper"
                     ::"m"(mask), "r"(place) : CLOBBERED);
    runs(at_narrow, 'w', place, 4, 8);
}

#define COMPRESSED(label, compress, expand, size, count)                                          \
    DECLARE(label##_expand);                                                                      \
    DECLARE(label##_compress);                                                                    \
    static __attribute__((noinline)) void label(void)                                             \
    {                                                                                             \
        new_mask(count);                                                                          \
        int bytes = __builtin_popcountll(mask) * size;                                            \
        char *place = noise() % 2 ? pool - bytes : middle;                                        \
        __asm__ volatile("kmovq %0, %%k1\n" AT(label##_expand) expand " (%1), %%zmm0%{%%k1%}\n"     \
                         AT(label##_compress) compress " %%zmm0, (%1)%{%%k1%}\n vzeroupper"         \
                         ::"m"(mask), "r"(place) : CLOBBERED);                                    \
        if (bytes) {                                                                              \
            expect(at_##label##_expand, 'r', place, bytes);                                       \
            expect(at_##label##_compress, 'w', place, bytes);                                     \
        }                                                                                         \
    }
COMPRESSED(packed_d, "vpcompressd", "vpexpandd", 4, 16)
COMPRESSED(packed_q, "vcompresspd", "vexpandpd", 8, 8)
COMPRESSED(packed_b, "vpcompressb", "vpexpandb", 1, 64)

/* AMX: eight tiles of up to 16 rows of 64 bytes. */
DECLARE(tile_configure);
DECLARE(tile_load);
DECLARE(tile_stream);
DECLARE(tile_store);
DECLARE(tile_configuration);
static __attribute__((noinline)) void tiles(void)
{
    static _Alignas(64) uint8_t configuration[64], back[64];
    unsigned bytes = 4 * (1 + noise() % 16), rows = 1 + noise() % 16;
    configuration[0] = 1;
    configuration[16 + 2 * 5] = (uint8_t)bytes;
    configuration[48 + 5] = (uint8_t)rows;
    configuration[16 + 2 * 2] = 64;
    configuration[48 + 2] = 16;
    long stride = (long)(noise() % 200) - 100;
    char *from = middle + noise() % 64, *to = middle + 4096;
    __asm__ volatile(AT(tile_configure) "ldtilecfg %0\n" AT(tile_load)
                     "tileloadd 8(%2,%4,2), %%tmm5\n" AT(tile_stream)
                     "tileloaddt1 (%2), %%tmm2\n" AT(tile_store)
                     "tilestored %%tmm5, (%3,%4,1)\n" AT(tile_configuration)
                     "sttilecfg %1\n tilerelease"
                     ::"m"(configuration), "m"(back), "r"(from), "r"(to), "r"(stride) : "memory");
    expect(at_tile_configure, 'r', (char *)configuration, 64);
    for (int row = 0; row < (int)rows; row++)
        expect(at_tile_load, 'r', from + 8 + row * stride * 2, bytes);
    for (int row = 0; row < 16; row++)
        expect(at_tile_stream, 'r', from, 64);
    for (int row = 0; row < (int)rows; row++)
        expect(at_tile_store, 'w', to + row * stride, bytes);
    expect(at_tile_configuration, 'w', (char *)back, 64);
    EXPECT(memcmp(back, configuration, 64) == 0);
}

static int has_tiles(void)
{
    enum { PERMIT = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1
        && syscall(SYS_arch_prctl, PERMIT, TILE_DATA) == 0;
}

static void *disturb(void *argument)
{
    char *start = pool - POOL;
    for (unsigned i = 0; !done; i++) {
        volatile char *at = start + i * 264 % POOL;
        if (i % 64 == 0)
            *at = (char)i;
        else
            (void)*at;
        for (int wait = 0; wait < 50; wait++)
            __asm__ volatile("pause");
    }
    return argument;
}

int main(void)
{
    char *start = mmap(NULL, POOL + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool = start + POOL;
    middle = start + POOL / 2;
    EXPECT(mprotect(pool, 4096, PROT_NONE) == 0);
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int bytewise = wide && __builtin_cpu_supports("avx512vbmi2"), tiled = has_tiles();
    pthread_t other;
    EXPECT(pthread_create(&other, NULL, disturb, NULL) == 0);
    for (int i = 0; i < TIMES; i++) {
        gather_dd(), gather_dq(), gather_qd(), gather_qq(), gather_ps(), gather_pd(), gather_whole();
        maskmov_ps(), maskmov_pd(), maskmov_d(), maskmov_q(), bytes();
        if (wide) {
            gather_16(), gather_8(), gather_narrow(), scatter_16(), scatter_8(), scatter_whole();
            move_b(), move_w(), move_d(), move_q(), arithmetic(), packed_d(), packed_q();
        }
        if (bytewise)
            packed_b();
        if (tiled)
            tiles();
    }
    EXPECT(carried == 10 * TIMES);
    done = 1;
    EXPECT(pthread_join(other, NULL) == 0);
    return 0;
}
