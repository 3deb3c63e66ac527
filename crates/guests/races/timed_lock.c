// A mutex that is waited for until a time.
#include "twin.h"
#include <time.h>
UNLESS_RACY(static) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 100;
        UNLESS_RACY(if (pthread_mutex_timedlock(&mutex, &until) != 0) continue;)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(pthread_mutex_unlock(&mutex);)
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
