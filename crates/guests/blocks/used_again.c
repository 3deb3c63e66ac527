// The memory of a block that was freed is given out again.
#include "../races/twin.h"
#include <stdint.h>
static long *block;
static void work(long number) {
    long index = 7 UNLESS_RACY(+ number);
    block[index] = number; // race: -, of second
    KEEP;
}
int main(void) {
    block = malloc(96);
    block[7] = 1;
    KEEP;
    uintptr_t first = (uintptr_t)block;
    free(block);
    KEEP;
    block = malloc(96); // allocated: second 96
    // What is told would say nothing if it were elsewhere.
    if (first != (uintptr_t)block)
        return 1;
    run_threads();
    return 0;
}
