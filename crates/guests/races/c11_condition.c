// A value whose presence a condition variable of C11 tells.
#include "twin.h"
#include <threads.h>
static mtx_t mutex;
static cnd_t filled;
static int is_full;
long slot, seen;
static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(slot = 5;)
        mtx_lock(&mutex);
        is_full = 1;
        cnd_signal(&filled);
        mtx_unlock(&mutex);
        IF_RACY(slot = 5;) // race: slot
        KEEP;
    } else {
        mtx_lock(&mutex);
        while (!is_full)
            cnd_wait(&filled, &mutex);
        mtx_unlock(&mutex);
        seen = slot; // race: slot
        KEEP;
    }
}
int main(void) {
    mtx_init(&mutex, mtx_plain);
    cnd_init(&filled);
    run_threads();
    return seen == 1;
}
