// Two mutexes, of which each thread takes its own: no exclusion.
#include "twin.h"
static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
long counter;
static void work(long number) {
    (void)number;
    pthread_mutex_t *mutex = &mutexes[0 IF_RACY(+ number)];
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(mutex);
        counter++; // race: counter
        KEEP;
        pthread_mutex_unlock(mutex);
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
