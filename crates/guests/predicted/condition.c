// Whoever waits for a condition learns what was done before. Who only takes the lock does not.
#include "../races/twin.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int value;
static int ready;

static void work(long number) {
    if (number == 0) {
        UNLESS_RACY(usleep(100000));
        value = 1; // race: value
        pthread_mutex_lock(&mutex);
        UNLESS_RACY(ready = 1);
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    } else {
        IF_RACY(usleep(100000));
        pthread_mutex_lock(&mutex);
        UNLESS_RACY(while (!ready) pthread_cond_wait(&condition, &mutex));
        pthread_mutex_unlock(&mutex);
        value = 2; // race: value
    }
}

int main(void) {
    run_threads();
    return value == 3;
}
