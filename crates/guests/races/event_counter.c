// The same with an event counter of the kernel.
#include "twin.h"
#include <sys/eventfd.h>
static int counter;
long value;
static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(value = 42;)
        eventfd_write(counter, 1);
        KEEP;
        IF_RACY(value = 42;) // race: value
    } else {
        eventfd_t seen;
        eventfd_read(counter, &seen);
        volatile long copy = value; // race: value
        KEEP;
        (void)copy;
    }
}
int main(void) {
    counter = eventfd(0, 0);
    run_threads();
    return value != 42;
}
