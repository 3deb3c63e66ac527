// A spin lock of the C library, which a plain store releases.
#include "twin.h"
static pthread_spinlock_t lock;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_spin_lock(&lock);
        IF_RACY(pthread_spin_unlock(&lock);)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(pthread_spin_unlock(&lock);)
    }
}
int main(void) {
    pthread_spin_init(&lock, 0);
    run_threads();
    return counter == 0;
}
