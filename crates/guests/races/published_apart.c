// A value that a plain store with release publishes, by an atomic member of a structure, which optimised
// code has in pieces. That it is atomic stands in debugging information that was compiled apart.
// flags: -gsplit-dwarf
#include "twin.h"
#include <stdatomic.h>
static struct {
    long asked;
    _Atomic int ready;
} message;
static long value;
static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(value = 42;)
        atomic_store_explicit(&message.ready, 1, memory_order_release);
        IF_RACY(value = 42;) // race: value
    } else {
        for (; !atomic_load_explicit(&message.ready, memory_order_acquire); message.asked++)
            if (message.asked > 10)
                usleep(100);
        volatile long seen = value; // race: value
        (void)seen;
    }
}
int main(void) {
    run_threads();
    return message.asked < 0;
}
