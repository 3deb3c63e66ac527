// memset of neighbouring ranges that meet in the middle of a word, or overlap by a byte.
#include "twin.h"
char bytes[203];
static long size = 101;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        long start = number * size IF_RACY(- number);
        memset(bytes + start, round, size); // race: bytes
        KEEP;
    }
}
int main(void) {
    run_threads();
    return bytes[0] == 77;
}
