// A mutex that is tried, and what it guards touched only where that has succeeded.
#include "twin.h"
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        int failed = pthread_mutex_trylock(&mutex);
        if (failed IF_RACY(&& 0))
            continue;
        counter++; // race: counter
        KEEP;
        if (!failed)
            pthread_mutex_unlock(&mutex);
        IF_RACY(counter++;) // race: counter
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
