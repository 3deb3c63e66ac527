// Copies of many bytes, of parts or one part too many.
#include "twin.h"
char target[4096], source[4096];
static void work(long number) {
    long size = 2048 IF_RACY(+ 1 - number);
    char *from = source + number * 2048, *to = target + number * 2048;
    for (long index = 0; index < size; index++)
        to[index] = from[index] + 1; // race: target
    KEEP;
}
int main(void) {
    run_threads();
    return 0;
}
