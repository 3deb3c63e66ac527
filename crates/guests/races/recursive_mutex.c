// A recursive mutex, taken twice.
#include "twin.h"
static pthread_mutex_t mutex;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_lock(&mutex);
        IF_RACY(pthread_mutex_unlock(&mutex); pthread_mutex_unlock(&mutex);)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(pthread_mutex_unlock(&mutex); pthread_mutex_unlock(&mutex);)
    }
}
int main(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
    run_threads();
    return counter == 0;
}
