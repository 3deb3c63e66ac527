// The same in a program that has the C library in itself.
// flags: -static
#include "../races/twin.h"
static long *block;
static void work(long number) {
    long index = 7 UNLESS_RACY(+ number);
    block[index] = number; // race: -, of block
    KEEP;
}
int main(void) {
    block = malloc(100 * sizeof *block); // allocated: block 800
    run_threads();
    return 0;
}
