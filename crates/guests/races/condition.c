// One thread waits for another's value with a condition variable.
#include "twin.h"
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int ready;
long value;
static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(value = 42;)
        pthread_mutex_lock(&mutex);
        ready = 1;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&mutex);
        KEEP;
        IF_RACY(value = 42;) // race: value
    } else {
        pthread_mutex_lock(&mutex);
        while (!ready)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        volatile long seen = value; // race: value
        KEEP;
        (void)seen;
    }
}
int main(void) {
    run_threads();
    return value != 42;
}
