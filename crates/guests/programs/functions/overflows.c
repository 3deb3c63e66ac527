// Reads or writes beside a block of the heap, in the way that its argument says, or not at all.
// flags: -O1 -g -fno-builtin
// arguments: none
// variants: static

#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noipa))

APART void write_at(char *block, long place) { block[place] = 1; }
APART char read_at(char *block, long place) { return block[place]; }
APART void fill(char *block, unsigned long size) {
    __asm__ volatile("rep stosb" : "+D"(block), "+c"(size) : "a"(0) : "memory");
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "none";
    long size = 10 + count;
    char *block = malloc(size), *zeros = calloc(size, 3), *other = malloc(100);
    if (block == NULL || zeros == NULL || other == NULL)
        return 1;
    // All that is allowed, up to the last byte.
    fill(block, size);
    fill(zeros, 3 * size);
    memset(other, 'x', 99);
    other[99] = 0;
    memcpy(block, "123456789", 10);
    long length = strlen(block) + strlen(other);
    zeros = realloc(zeros, 1000);
    write_at(zeros, 999);
    if (strcmp(way, "behind") == 0)
        write_at(block, size);
    if (strcmp(way, "before") == 0)
        length += read_at(block, -1);
    if (strcmp(way, "copy") == 0)
        memcpy(block, other, size + 1);
    if (strcmp(way, "fill") == 0)
        fill(zeros, 1001);
    free(other);
    free(zeros);
    free(block);
    return length == 0;
}
