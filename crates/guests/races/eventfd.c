// An event descriptor carries order; the racy twin writes behind it.
#include "twin.h"
#include <stdint.h>
#include <sys/eventfd.h>
static int event;
long value;
static void work(long number) {
    uint64_t one = 1;
    if (number == 0) {
        UNLESS_RACY(value = 1;)
        if (write(event, &one, 8) != 8)
            abort();
        IF_RACY(value = 1;) // race: value
        KEEP;
    } else {
        if (read(event, &one, 8) != 8)
            abort();
        if (value == 7) // race: value
            abort();
    }
}
int main(void) {
    event = eventfd(0, 0);
    run_threads();
    return 0;
}
