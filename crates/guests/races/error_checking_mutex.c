// A mutex that checks who unlocks it.
#include "twin.h"
static pthread_mutex_t mutex;
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
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &kind);
    run_threads();
    return counter == 0;
}
