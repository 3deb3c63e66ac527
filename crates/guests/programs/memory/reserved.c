// A hundred gigabytes are reserved, as garbage collectors and sparse tables do; pieces of them
// are used, given back, protected, and used again.
// flags: -O2 -D_GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "expect.h"

#define SIZE ((size_t)100 << 30)
#define STEP ((size_t)1 << 30)

int main(void) {
    int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, anonymous, -1, 0);
    EXPECT(area != MAP_FAILED);
    for (size_t at = 0; at < SIZE; at += STEP)
        *(volatile size_t *)(area + at + at / STEP * 8) = at;
    size_t sum = 0;
    for (size_t at = 0; at < SIZE; at += STEP)
        sum += *(volatile size_t *)(area + at + at / STEP * 8) >> 30;
    EXPECT(sum == 99 * 100 / 2);
    EXPECT(madvise(area, SIZE, MADV_DONTNEED) == 0 && *(volatile size_t *)(area + STEP + 8) == 0);

    char *inaccessible = mmap(NULL, 2 * SIZE, PROT_NONE, anonymous, -1, 0);
    EXPECT(inaccessible != MAP_FAILED);
    for (size_t at = 0; at < SIZE; at += STEP) {
        EXPECT(mprotect(inaccessible + at, 65536, PROT_READ | PROT_WRITE) == 0);
        *(volatile size_t *)(inaccessible + at) = at;
    }
    // Code in its middle, far from everything else.
    unsigned char *code = (unsigned char *)inaccessible + SIZE;
    EXPECT(mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    for (int round = 0; round < 100; round++) {
        unsigned char answer[] = {0xb8, (unsigned char)round, 0, 0, 0, 0xc3};
        for (int i = 0; i < 6; i++)
            code[i] = answer[i];
        EXPECT(((int (*)(void))code)() == round);
    }
    EXPECT(munmap(inaccessible, 2 * SIZE) == 0 && munmap(area, SIZE) == 0);
    puts("used");
    return 0;
}
