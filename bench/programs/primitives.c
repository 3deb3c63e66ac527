/* A loop with accesses, and calls of a function: what bench/primitives.py counts and measures.
   Arguments: rounds of the loop, calls. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1024 };

static uint64_t sums[LENGTH];
static uint32_t factors[LENGTH];

__attribute__((noinline)) uint64_t leaf(uint64_t number)
{
    __asm__ volatile("");
    return number + 1;
}

int main(int count, char **arguments)
{
    long rounds = count > 1 ? atol(arguments[1]) : 1;
    long calls = count > 2 ? atol(arguments[2]) : 0;
    for (long i = 0; i < LENGTH; i++)
        factors[i] = i;
    for (long round = 0; round < rounds; round++) {
        uint64_t last = round;
        for (long i = 0; i < LENGTH; i++) {
            uint64_t here = sums[i];
            sums[i] = here + factors[i] * last;
            last = here & 0xff;
            __asm__ volatile("" ::: "memory");
        }
    }
    uint64_t number = sums[LENGTH - 1];
    for (long call = 0; call < calls; call++)
        number = leaf(number);
    printf("%llu\n", (unsigned long long)number);
}
