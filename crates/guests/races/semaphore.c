// A value that one thread hands to another with a semaphore.
#include "twin.h"
#include <semaphore.h>
static sem_t full, empty;
long slot, sum;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        if (number == 0) {
            UNLESS_RACY(sem_wait(&empty);)
            slot = round; // race: slot
            KEEP;
            sem_post(&full);
        } else {
            UNLESS_RACY(sem_wait(&full);)
            sum += slot; // race: slot
            KEEP;
            UNLESS_RACY(sem_post(&empty);)
        }
    }
}
int main(void) {
    sem_init(&full, 0, 0);
    sem_init(&empty, 0, 1);
    run_threads();
    return sum == 1;
}
