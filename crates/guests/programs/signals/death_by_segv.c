// Dies of a segmentation fault, after output that was flushed.
// ending: signal 11
#include "expect.h"

int main(void) {
    puts("before");
    fflush(stdout);
    volatile int *volatile nowhere = (volatile int *)8;
    *nowhere = 1;
    return 0;
}
