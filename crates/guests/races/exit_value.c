// What a thread has written to the heap is read behind its join; the racy twin reads it before.
#define OWN_THREADS
#include "twin.h"
#include <stdatomic.h>
static _Atomic(long *) told;
static void *makes(void *argument) {
    (void)argument;
    long *made = malloc(sizeof *made);
    atomic_exchange(&told, made);
    *made = 5; // race: -
    KEEP;
    pthread_exit(made);
}
int main(void) {
    pthread_t thread;
    void *made = NULL;
    long seen = 0;
    pthread_create(&thread, NULL, makes, NULL);
    IF_RACY(long *early; while ((early = atomic_load(&told)) == NULL) sched_yield();)
    IF_RACY(seen = *early;) // race: -
    KEEP;
    pthread_join(thread, &made);
    seen += *(long *)made;
    free(made);
    return seen == 0;
}
