// Each thread fills its own part of a block of the heap, or a part too much.
#include "twin.h"
static int *block;
static void work(long number) {
    int count = 100 IF_RACY(+ 1);
    for (int index = 0; index < count; index++)
        block[number * 100 + index] = index; // race: -
    KEEP;
}
int main(void) {
    block = malloc(201 * sizeof *block);
    run_threads();
    return block[0];
}
