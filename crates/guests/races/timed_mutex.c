// A counter under a mutex that is waited for until a time.
#include "twin.h"
#include <time.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += 100;
        UNLESS_RACY(if (pthread_mutex_timedlock(&mutex, &end) != 0) abort();)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(pthread_mutex_unlock(&mutex);)
    }
}
int main(void) {
    (void)mutex;
    run_threads();
    return counter == 0;
}
