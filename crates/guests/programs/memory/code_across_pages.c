// Code that runs across the border of two writable pages and rewrites, each time, what follows on
// the next page or on its own; code that is laid down behind code that runs; and code that a
// repeated move overwrites, on both pages at once.
// flags: -O2 -D_GNU_SOURCE
// variants: threaded
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { PAGE = 4096, PADDING = 5 };

typedef int (*function)(int);

// mov %dil, to the last move's operand; nops; mov $0, %eax; ret
static void lay_own_writer(unsigned char *at) {
    unsigned char code[7 + PADDING + 6] = {0x40, 0x88, 0x3d, PADDING + 1, 0, 0, 0};
    memset(code + 7, 0x90, PADDING);
    code[7 + PADDING] = 0xb8;
    code[sizeof code - 1] = 0xc3;
    memcpy(at, code, sizeof code);
}

static int across_the_border(unsigned char *border) {
    int sum = 0;
    for (int before = 0; before <= 18; before++) {
        lay_own_writer(border - before);
        function volatile call = (function)(border - before);
        for (int i = 0; i < 40; i++) {
            int got = call(i * 5 % 251);
            EXPECT(got == i * 5 % 251);
            sum += got;
        }
    }
    return sum;
}

// add $N, %edi; ... over the border; lea (%rdi), %eax; ret: a long run of code, one operand of
// which is rewritten from elsewhere, on the one page or the other.
static int long_run(unsigned char *border) {
    enum { STEPS = 60, STEP = 3 };
    unsigned char *start = border - STEPS / 2 * STEP - 1;
    for (int step = 0; step < STEPS; step++) {
        memcpy(start + step * STEP, (unsigned char[]){0x83, 0xc7, 1}, STEP);
    }
    memcpy(start + STEPS * STEP, (unsigned char[]){0x89, 0xf8, 0xc3}, 3);
    function volatile call = (function)start;
    int expected = STEPS, sum = 0;
    for (int i = 0; i < 300; i++) {
        unsigned char *operand = start + i * 7 % STEPS * STEP + 2;
        expected += i % 100 - *operand;
        *(volatile unsigned char *)operand = (unsigned char)(i % 100);
        int got = call(i);
        EXPECT(got == i + expected);
        sum += got;
    }
    return sum;
}

// Small functions, one behind the other over both pages, each laid down when those before it
// have run.
static int one_behind_the_other(unsigned char *pages) {
    enum { SIZE = 32 };
    int sum = 0;
    for (int n = 0; n < 2 * PAGE / SIZE; n++) {
        unsigned char code[] = {0x8d, 0x87, (unsigned char)n, 0, 0, 0, 0xc3};
        memcpy(pages + n * SIZE, code, sizeof code);
        for (int earlier = n > 3 ? n - 3 : 0; earlier <= n; earlier++) {
            function volatile call = (function)(pages + earlier * SIZE);
            int got = call(n);
            EXPECT(got == n + (unsigned char)earlier);
            sum += got;
        }
    }
    return sum;
}

static int overwritten(unsigned char *pages) {
    static unsigned char image[2 * PAGE];
    int sum = 0;
    for (int round = 0; round < 30; round++) {
        for (int at = 0; at < 2 * PAGE; at += 64) {
            unsigned char code[] = {0xb8, (unsigned char)(at / 64 + round), 0, 0, 0, 0xc3};
            memcpy(image + at, code, sizeof code);
        }
        void *to = pages, *from = image;
        long count = sizeof image;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        for (int at = 0; at < 2 * PAGE; at += 64) {
            function volatile call = (function)(pages + at);
            int got = call(0);
            EXPECT(got == (unsigned char)(at / 64 + round));
            sum += got;
        }
    }
    return sum;
}

int main(void) {
    unsigned char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pages != MAP_FAILED);
    printf("%d\n", across_the_border(pages + PAGE));
    printf("%d\n", long_run(pages + PAGE));
    printf("%d\n", one_behind_the_other(pages));
    printf("%d\n", overwritten(pages));
    return 0;
}
