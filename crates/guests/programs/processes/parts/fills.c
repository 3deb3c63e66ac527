// Touches memory: first a little of it again and again, then as many MiB as it is told.
// flags: -O1
#include <stdlib.h>
#include <sys/mman.h>

#include "expect.h"

enum { AGAIN = 40, LITTLE = 1 << 20, LINE = 64 };

static long add(volatile char *memory, size_t size) {
    long sum = 0;
    for (size_t at = 0; at < size; at += LINE)
        sum += memory[at] += 1;
    return sum;
}

int main(int count, char **arguments) {
    EXPECT(count == 2);
    size_t size = strtoul(arguments[1], NULL, 10) << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    long sum = 0;
    for (int i = 0; i < AGAIN; i++)
        sum += add(memory, LITTLE);
    printf("%ld\n", sum + add(memory, size));
    return 0;
}
