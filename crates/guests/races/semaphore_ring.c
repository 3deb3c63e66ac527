// A ring that two semaphores guard; the racy twin's consumer does not wait for what it reads.
#include "twin.h"
#include <semaphore.h>
static sem_t filled, empty;
long ring[4];
static void work(long number) {
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (number == 0) {
            UNLESS_RACY(sem_wait(&empty);)
            ring[round % 4] = round; // race: ring
            KEEP;
            UNLESS_RACY(sem_post(&filled);)
        } else {
            UNLESS_RACY(sem_wait(&filled);)
            sum += ring[round % 4]; // race: ring
            KEEP;
            UNLESS_RACY(sem_post(&empty);)
        }
    }
    if (sum == -1)
        abort();
}
int main(void) {
    sem_init(&filled, 0, 0);
    sem_init(&empty, 0, 4);
    run_threads();
    return 0;
}
