// Two arrays in turns, of which each thread reads its neighbour's half behind a barrier.
#include "twin.h"
static pthread_barrier_t phase;
long cells[2][16];
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        long *from = cells[round % 2], *to = cells[!(round % 2)];
        for (int cell = 0; cell < 8; cell++)
            to[number * 8 + cell] = from[!number * 8 + cell] + 1; // race: cells
        KEEP;
        UNLESS_RACY(pthread_barrier_wait(&phase);)
    }
}
int main(void) {
    pthread_barrier_init(&phase, NULL, 2);
    run_threads();
    return cells[0][0] == 0;
}
