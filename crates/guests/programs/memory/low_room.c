// There is room below 2 GiB for a program that asks for it (MAP_32BIT), hundreds of megabytes, and
// what it gets is its own.
// flags: -O2 -D_GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "expect.h"

#define PIECE (32ul << 20)
#define WANTED 24

int main(void) {
    volatile uintptr_t *pieces[WANTED];
    for (uintptr_t i = 0; i < WANTED; i++) {
        pieces[i] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT | MAP_NORESERVE, -1, 0);
        EXPECT(pieces[i] != MAP_FAILED);
        EXPECT((uintptr_t)pieces[i] + PIECE <= 1ul << 31);
        pieces[i][0] = i;
        pieces[i][PIECE / sizeof **pieces - 1] = ~i;
    }
    for (uintptr_t i = 0; i < WANTED; i++) {
        EXPECT(pieces[i][0] == i && pieces[i][PIECE / sizeof **pieces - 1] == ~i);
        EXPECT(munmap((void *)pieces[i], PIECE) == 0);
    }
    puts("room");
    return 0;
}
