// A counter under a mutex with priority inheritance.
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
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&mutex, &kind);
    run_threads();
    return counter == 0;
}
