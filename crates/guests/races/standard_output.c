// Threads print, which the C library orders.
#include "twin.h"
#include <stdio.h>
long lines;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        printf("%ld %d\n", number, round);
        UNLESS_RACY(__atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED);)
        IF_RACY(lines++;) // race: lines
        KEEP;
    }
}
int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 4096);
    run_threads();
    return lines == 0;
}
