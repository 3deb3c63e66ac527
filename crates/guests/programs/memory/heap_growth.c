// The heap grows and shrinks by brk, contiguously and zeroed, and malloc survives it.
// flags: -O2 -D_GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

int main(void) {
    char *start = sbrk(0);
    EXPECT(sbrk(3 * 4096 + 100) == start && sbrk(0) == start + 3 * 4096 + 100);
    for (int i = 0; i < 3 * 4096 + 100; i++)
        EXPECT(start[i] == 0);
    memset(start, 1, 3 * 4096 + 100);
    EXPECT(sbrk(-3 * 4096 - 100) != (void *)-1 && sbrk(0) == start);
    EXPECT(sbrk(64 << 20) == start);
    start[(64 << 20) - 1] = 9;
    EXPECT(start[32 << 20] == 0);
    EXPECT(sbrk(INTPTR_MAX) == (void *)-1);
    EXPECT(brk(start) == 0);
    void *blocks[500];
    for (int i = 0; i < 500; i++)
        memset(blocks[i] = malloc(i * 321 + 1), i, i * 321 + 1);
    for (int i = 0; i < 500; i++) {
        unsigned char *block = realloc(blocks[i], i * 700 + 1);
        EXPECT(block[0] == i % 256 && block[i * 321] == i % 256);
        free(block);
    }
    puts("grew");
    return 0;
}
