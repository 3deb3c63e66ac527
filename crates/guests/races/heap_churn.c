// Each thread takes and gives back blocks of many sizes, which the other one gets next.
#include "twin.h"
static pthread_barrier_t met;
long shared;
static void work(long number) {
    for (int round = 0; round < 200; round++) {
        size_t size = 16 + round * 37 % 3000;
        char *block = malloc(size);
        memset(block, (int)number, size);
        block = realloc(block, size * 2);
        block[size * 2 - 1] = 1;
        KEEP;
        free(block);
    }
    pthread_barrier_wait(&met);
    IF_RACY(shared = number;) // race: shared
    KEEP;
}
int main(void) {
    pthread_barrier_init(&met, NULL, 2);
    run_threads();
    return 0;
}
