// As many rounds as the argument says, each of which reads and writes memory; at the end a word is
// written that nobody has written before.
// flags: -g -O1
#include <stdio.h>
#include <stdlib.h>

long watched = 5;
volatile long slots[64];

__attribute__((noinline)) static void work(long rounds) {
    for (long i = 0; i < rounds; i++) slots[i & 63] += i;
}

int main(int count, char **arguments) {
    work(count > 1 ? atol(arguments[1]) : 1000);
    watched = 6;
    printf("%ld\n", slots[3]);
    return 0;
}
