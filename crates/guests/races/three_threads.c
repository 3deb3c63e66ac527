// Three threads whose only order is a lock each has with the next one; the racy twin has two of them.
// flags: -DTHREADS=3
#include "twin.h"
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        IF_RACY(if (number != 2))
        pthread_mutex_lock(&mutex);
        counter++; // race: counter
        KEEP;
        IF_RACY(if (number != 2))
        pthread_mutex_unlock(&mutex);
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
