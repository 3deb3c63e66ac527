// The stack grows to several megabytes, in small and in large steps, with the arguments and
// the environment where they were.
// flags: -O1 -D_GNU_SOURCE
#include <alloca.h>
#include <string.h>

#include "expect.h"

static long descend(int level) {
    volatile long here = level;
    return level == 0 ? 0 : descend(level - 1) + here;
}

static __attribute__((noinline)) long leap(int size) {
    char *block = alloca(size);
    memset(block, size % 100, size);
    return block[0] + block[size - 1];
}

int main(int count, char **arguments) {
    EXPECT(count == 1 && arguments[1] == NULL && (void *)environ == (void *)(arguments + 2));
    printf("%ld %ld\n", descend(50000), leap(5 << 20));
    return 0;
}
