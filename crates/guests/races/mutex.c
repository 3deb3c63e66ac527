// A counter that a mutex guards.
#include "twin.h"
UNLESS_RACY(static) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(pthread_mutex_lock(&mutex);)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(pthread_mutex_unlock(&mutex);)
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
