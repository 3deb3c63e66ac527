// Threads end and others begin on their stacks.
#include "twin.h"
long shared;
static void *child(void *number) {
    volatile char room[2000];
    memset((char *)room, (int)(long)number, sizeof room);
    return NULL;
}
static void work(long number) {
    IF_RACY(shared = number;) // race: shared
    KEEP;
    for (int round = 0; round < 5; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, child, (void *)number);
        pthread_join(thread, NULL);
    }
}
int main(void) {
    run_threads();
    return 0;
}
