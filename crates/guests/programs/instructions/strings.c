// String instructions of every width, forwards and backwards, overlapping, with a count of
// zero, and stopped by a comparison.
// flags: -O1
// variants: threaded
#include <stdint.h>
#include <string.h>

#include "expect.h"

static uint8_t source[4096], target[4096];

static uint64_t checksum(void) {
    uint64_t sum = 0;
    for (int i = 0; i < 4096; i++)
        sum = sum * 31 + target[i];
    return sum;
}

#define MOVE(width, direction, bytes)                                                        \
    do {                                                                                     \
        long last = direction < 0 ? (200 - 1) * bytes : 0;                                   \
        void *from = source + 8 + last, *to = target + 24 + last;                            \
        long count = 200;                                                                    \
        if (direction < 0)                                                                   \
            __asm__ volatile("std\n rep movs" width "\n cld"                                 \
                             : "+S"(from), "+D"(to), "+c"(count)::"memory");                 \
        else                                                                                 \
            __asm__ volatile("rep movs" width : "+S"(from), "+D"(to), "+c"(count)::"memory"); \
        EXPECT(count == 0 && (uint8_t *)to == target + 24 + last + direction * 200 * bytes); \
        EXPECT(memcmp(target + 24, source + 8, 200 * bytes) == 0);                           \
    } while (0)

int main(void) {
    for (int i = 0; i < 4096; i++)
        source[i] = (uint8_t)(i * i + i / 7);
    MOVE("b", 1, 1);
    MOVE("b", -1, 1);
    MOVE("w", 1, 2);
    MOVE("l", -1, 4);
    MOVE("q", 1, 8);
    MOVE("q", -1, 8);

    // Overlapping: each byte is moved before the next is read.
    void *from = target + 100, *to = target + 101;
    long count = 50;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    EXPECT(target[150] == target[100]);

    to = target + 500;
    count = 40;
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(0x01020304) : "memory");
    EXPECT(target[500] == 4 && target[659] == 1 && (uint8_t *)to == target + 660);
    count = 0;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(9) : "memory");
    EXPECT((uint8_t *)to == target + 660 && target[660] != 9);

    memset(target + 1000, 'x', 300);
    target[1123] = 'y';
    to = target + 1000;
    count = 300;
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"('y') : "cc");
    EXPECT((uint8_t *)to == target + 1124 && count == 300 - 124);
    from = target + 1000;
    to = target + 1100;
    count = 100;
    char equal;
    __asm__ volatile("repe cmpsb\n sete %0" : "=q"(equal), "+S"(from), "+D"(to), "+c"(count)::"cc");
    EXPECT(!equal && count == 100 - 24);
    uint64_t loaded;
    from = source + 80;
    __asm__ volatile("std\n lodsq\n cld" : "=a"(loaded), "+S"(from)::"cc");
    EXPECT((uint8_t *)from == source + 72 && memcmp(&loaded, source + 80, 8) == 0);
    printf("%016lx\n", checksum());
    return 0;
}
