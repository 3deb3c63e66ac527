// A reader-writer lock; the racy twin writes while it has it for reading, as the others do.
#include "twin.h"
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
long counter, sum;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        if (number == 0) {
            UNLESS_RACY(pthread_rwlock_wrlock(&lock);)
            IF_RACY(pthread_rwlock_rdlock(&lock); pthread_barrier_wait(&together);)
            counter++; // race: counter
            KEEP;
        } else {
            pthread_rwlock_rdlock(&lock);
            IF_RACY(pthread_barrier_wait(&together);)
            long seen = counter; // race: counter
            KEEP;
            __atomic_fetch_add(&sum, seen, __ATOMIC_RELAXED);
        }
        pthread_rwlock_unlock(&lock);
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
