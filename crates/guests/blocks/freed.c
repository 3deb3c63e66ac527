// One thread frees a block that the other one still writes.
#include "../races/twin.h"
static long *block;
static void work(long number) {
    if (number == 0) {
        block[20] = 1; // race: -, of block
        KEEP;
        IF_RACY(free(block);) // freed: block
    } else {
        usleep(200000);
        block[20 UNLESS_RACY(+ 20)] = 2; // race: -, of block
        KEEP;
    }
}
int main(void) {
    block = malloc(800); // allocated: block 800
    run_threads();
    return 0;
}
