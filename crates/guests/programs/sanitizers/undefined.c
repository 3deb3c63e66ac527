// Built with the sanitizer of undefined behaviour: it names what it finds, and goes on.
// flags: -O1 -fsanitize=undefined
// needs: file /usr/lib/x86_64-linux-gnu/libubsan.so.1
#include <limits.h>

#include "expect.h"

static volatile int one = 1, most = INT_MAX, forty = 40, least = INT_MIN;

int main(void) {
    int sum = most + one;
    sum ^= one << forty;
    sum ^= -least;
    printf("%d\n", sum);
    return 0;
}
