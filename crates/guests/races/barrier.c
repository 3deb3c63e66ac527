// Threads that read, behind a barrier, what others wrote before it.
#include "twin.h"
static pthread_barrier_t middle;
long cells[2], sums[2];
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        cells[number] = round; // race: cells
        KEEP;
        UNLESS_RACY(pthread_barrier_wait(&middle);)
        sums[number] += cells[1 - number]; // race: cells
        KEEP;
        UNLESS_RACY(pthread_barrier_wait(&middle);)
    }
}
int main(void) {
    pthread_barrier_init(&middle, NULL, THREADS);
    run_threads();
    return sums[0] == 1 && sums[1] == 2;
}
