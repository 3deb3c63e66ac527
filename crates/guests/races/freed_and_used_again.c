// Blocks go from thread to thread through the allocator, which orders them.
#include "twin.h"
long shared;
static void work(long number) {
    IF_RACY(shared = number;) // race: shared
    KEEP;
    for (int round = 0; round < 200; round++) {
        long *block = malloc(64 + round % 8 * 512);
        *block = number;
        KEEP;
        free(block);
    }
}
int main(void) {
    run_threads();
    return 0;
}
