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

// The numbers at four places behind the block's start, of those that the mask has.
APART int gather(int *block, const int places[4], const int mask[4])
{
    int numbers[4] = {0};
    __asm__ volatile("vmovdqu %1, %%xmm1\n vmovdqu %2, %%xmm2\n vpxor %%xmm0, %%xmm0, %%xmm0\n"
                     "vpgatherdd %%xmm2, (%3,%%xmm1,4), %%xmm0\n vmovdqu %%xmm0, %0"
                     : "=m"(*(int (*)[4])numbers)
                     : "m"(*(const int (*)[4])places), "m"(*(const int (*)[4])mask), "r"(block)
                     : "xmm0", "xmm1", "xmm2", "memory");
    return numbers[0] + numbers[1] + numbers[2] + numbers[3];
}

// Clears those of four numbers that the mask has.
APART void clear(int *block, const int mask[4])
{
    __asm__ volatile("vmovdqu %0, %%xmm2\n vpxor %%xmm0, %%xmm0, %%xmm0\n"
                     "vpmaskmovd %%xmm0, %%xmm2, (%1)"
                     :
                     : "m"(*(const int (*)[4])mask), "r"(block)
                     : "xmm0", "xmm2", "memory");
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
    const int all[4] = {-1, -1, -1, -1}, but_the_last[4] = {-1, -1, -1, 0};
    const int places[4] = {0, 3, 249, 250};
    int *numbers = (int *)zeros;
    if (strcmp(way, "within") == 0) {
        length += gather(numbers, places, but_the_last);
        clear(numbers + 247, but_the_last);
    }
    if (strcmp(way, "gather") == 0)
        length += gather(numbers, places, all);
    if (strcmp(way, "masked") == 0)
        clear(numbers + 247, all);
    free(other);
    free(zeros);
    free(block);
    return length == 0;
}
