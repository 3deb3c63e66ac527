// Values that plain stores with release publish, by an atomic member of a block of the heap: no variable says
// that it is atomic.
#include "../../../../guests/races/twin.h"
#include <stdatomic.h>
#include <stdlib.h>
struct message {
    long value;
    _Atomic int ready;
};
static struct message *message;
static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(message->value = 42;)
        atomic_store_explicit(&message->ready, 1, memory_order_release);
        IF_RACY(message->value = 42;) // race: -
    } else {
        while (!atomic_load_explicit(&message->ready, memory_order_acquire))
            usleep(100);
        volatile long seen = message->value; // race: -
        (void)seen;
    }
}
int main(void) {
    message = calloc(1, sizeof *message);
    run_threads();
    free(message);
    return 0;
}
