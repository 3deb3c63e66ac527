// A value is announced through a pipe.
#include "twin.h"
static int ends[2];
long value;
static void work(long number) {
    char byte = 0;
    if (number == 0) {
        UNLESS_RACY(value = 42;)
        if (write(ends[1], &byte, 1) != 1)
            abort();
        KEEP;
        IF_RACY(value = 42;) // race: value
    } else {
        if (read(ends[0], &byte, 1) != 1)
            abort();
        volatile long seen = value; // race: value
        KEEP;
        (void)seen;
    }
}
int main(void) {
    if (pipe(ends))
        return 1;
    run_threads();
    return value != 42;
}
