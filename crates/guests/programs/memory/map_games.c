// Maps, moves, splits, protects, grows and shrinks mappings; what was written stays.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { PAGE = 4096 };

int main(void) {
    char *area = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(area != MAP_FAILED);
    for (int i = 0; i < 16; i++)
        memset(area + i * PAGE, 'a' + i, PAGE);
    EXPECT(munmap(area + 4 * PAGE, PAGE) == 0);
    EXPECT(mprotect(area + 8 * PAGE, PAGE, PROT_READ) == 0);
    EXPECT(area[3 * PAGE] == 'd' && area[5 * PAGE] == 'f' && area[8 * PAGE] == 'i');
    EXPECT(mmap(area + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == area + 4 * PAGE);
    EXPECT(area[4 * PAGE] == 0);
    EXPECT(mmap(area, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
               MAP_FAILED && errno == EEXIST);

    char *grown = mremap(area + 9 * PAGE, 7 * PAGE, 500 * PAGE, MREMAP_MAYMOVE);
    EXPECT(grown != MAP_FAILED && grown[0] == 'j' && grown[6 * PAGE] == 'p' && grown[7 * PAGE] == 0);
    char *shrunk = mremap(grown, 500 * PAGE, PAGE, 0);
    EXPECT(shrunk == grown && shrunk[0] == 'j');
    EXPECT(madvise(shrunk, PAGE, MADV_DONTNEED) == 0 && shrunk[0] == 0);

    unsigned char resident[4];
    EXPECT(mincore(area, 4 * PAGE, resident) == 0);
    EXPECT(munmap(area, 9 * PAGE) == 0);
    EXPECT(mincore(area, PAGE, resident) == -1 && errno == ENOMEM);

    // Low addresses that a program may choose are its own.
    char *low = mmap((void *)0x10000000, PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(low != MAP_FAILED);
    char *in_32_bits = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    EXPECT(in_32_bits != MAP_FAILED && (unsigned long)in_32_bits < 1ul << 31);
    puts("kept");
    return 0;
}
