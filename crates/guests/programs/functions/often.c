// Calls one function as often as its arguments say, and another one for each of these calls as
// often as they say; both are known by name only in the file's own symbols.
// flags: -O1
// arguments: 1000 3

#include <stdlib.h>

static volatile long sum;

__attribute__((noinline)) static void seldom(long number) { sum += number; }
__attribute__((noinline)) static void often(long number) { sum -= number; }

int main(int count, char **arguments) {
    long rounds = count > 1 ? atol(arguments[1]) : 0, calls = count > 2 ? atol(arguments[2]) : 0;
    for (long i = 0; i < rounds; i++) {
        seldom(i);
        for (long call = 0; call < calls; call++)
            often(call);
    }
    return 0;
}
