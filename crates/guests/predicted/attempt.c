// An attempt that fails tells that somebody has the lock. One that succeeds tells nothing.
#include "../races/twin.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int value;

static void work(long number) {
    if (number == 0) {
        value = 1; // race: value
        pthread_mutex_lock(&mutex);
        UNLESS_RACY(usleep(400000));
        pthread_mutex_unlock(&mutex);
    } else {
        usleep(100000);
        if (pthread_mutex_trylock(&mutex)) {
            UNLESS_RACY(value = 2);
        } else {
            IF_RACY(value = 2); // race: value
            pthread_mutex_unlock(&mutex);
        }
    }
}

int main(void) {
    run_threads();
    return value == 3;
}
