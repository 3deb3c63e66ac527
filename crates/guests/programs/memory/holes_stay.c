// Address space that a program has given up stays free, also when it executes much new code
// afterwards.
// flags: -O1 -D_GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

enum { PAGE = 4096, HOLE = 16 << 20, FUNCTIONS = 20000, ROOM = 16 };

int main(void) {
    unsigned char *code = mmap(NULL, FUNCTIONS * ROOM, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    // mov eax, number; ret
    for (int i = 0; i < FUNCTIONS; i++) {
        unsigned char *function = code + i * ROOM;
        function[0] = 0xb8;
        memcpy(function + 1, &i, sizeof i);
        function[5] = 0xc3;
    }
    char *hole = mmap(NULL, HOLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(hole != MAP_FAILED && munmap(hole, HOLE) == 0);
    long sum = 0;
    for (int i = 0; i < FUNCTIONS; i++) sum += ((int (*)(void))(code + i * ROOM))();
    EXPECT(sum == (long)FUNCTIONS * (FUNCTIONS - 1) / 2);
    for (long at = 0; at < HOLE; at += PAGE) {
        unsigned char resident;
        EXPECT(mincore(hole + at, PAGE, &resident) == -1 && errno == ENOMEM);
    }
    puts("free");
    return 0;
}
