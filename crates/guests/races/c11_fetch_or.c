// Bits of an atomic word say which parts are ready; the racy twin writes a part behind its bit.
#include "twin.h"
#include <stdatomic.h>
static atomic_ulong ready;
long parts[2];
static void work(long number) {
    UNLESS_RACY(parts[number] = 7;)
    atomic_fetch_or(&ready, 1ul << number);
    IF_RACY(parts[number] = 7;) // race: parts
    KEEP;
    while (atomic_load(&ready) != 3)
        sched_yield();
    if (parts[!number] == 9) // race: parts
        abort();
}
int main(void) {
    run_threads();
    return 0;
}
