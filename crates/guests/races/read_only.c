// All threads read what was written before they began; in the racy twin one writes on.
#define THREADS 4
#include "twin.h"
long table[64];
static void work(long number) {
    volatile long sum = 0;
    for (int index = 0; index < 64; index++)
        sum += table[index]; // race: table
    KEEP;
    IF_RACY(if (number == 3) table[63] = 1;) // race: table
    (void)number;
}
int main(void) {
    for (int index = 0; index < 64; index++)
        table[index] = index;
    run_threads();
    return 0;
}
