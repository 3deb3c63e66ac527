// Calls functions that are chosen when the program starts (`STT_GNU_IFUNC`): one of its own, and
// string functions of the C library, as often as its argument says.
// flags: -O1 -fno-builtin
// arguments: 7
// variants: static

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long first(long number) { return number + 1; }
static long second(long number) { return number + 0x1000; }

static long (*choose(void))(long) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? second : first;
}

long chosen(long number) __attribute__((ifunc("choose")));

// Lengths that nothing else in the program has.
enum { LENGTH = 0x1235, COPIED = 0x1135 };
static char text[LENGTH + 1], copy[LENGTH + 1];

int main(int count, char **arguments) {
    long times = count > 1 ? atol(arguments[1]) : 0, sum = 0;
    memset(text, 'x', LENGTH);
    for (long i = 0; i < times; i++) {
        sum += chosen(i);
        sum += (long)strlen(text);
        sum += ((char *)memcpy(copy, text, COPIED))[i];
    }
    printf("%ld\n", sum);
    return 0;
}
