// One thread writes before it takes a lock, the other behind that, and later. In the twin without
// races the lock's sections tell each other something.
#include "../races/twin.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int value;
static int inside;

static void work(long number) {
    if (number == 0) {
        value = 1; // race: value
        pthread_mutex_lock(&mutex);
        inside = 1;
        pthread_mutex_unlock(&mutex);
    } else {
        usleep(100000);
        pthread_mutex_lock(&mutex);
        UNLESS_RACY(if (inside))
            value = 2; // race: value
        pthread_mutex_unlock(&mutex);
    }
}

int main(void) {
    run_threads();
    return value == 3;
}
