// A semaphore as a lock that is tried until it is had.
#include "twin.h"
#include <semaphore.h>
static sem_t one;
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(while (sem_trywait(&one) != 0) sched_yield();)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(sem_post(&one);)
    }
}
int main(void) {
    sem_init(&one, 0, 1);
    run_threads();
    return counter == 0;
}
