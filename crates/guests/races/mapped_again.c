// Each thread maps and unmaps pages, which the kernel gives to the other one next.
#include "twin.h"
#include <sys/mman.h>
static pthread_barrier_t met;
long shared;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        long *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        page[0] = number;
        page[511] = round;
        KEEP;
        munmap(page, 4096);
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
