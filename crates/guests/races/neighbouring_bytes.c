// Threads write bytes side by side, or the same one.
#define THREADS 4
#include "twin.h"
char bytes[8];
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        bytes[UNLESS_RACY(number) IF_RACY(number / 2 * 2)]++; // race: bytes
        KEEP;
    }
}
int main(void) {
    run_threads();
    return bytes[0] == 0;
}
