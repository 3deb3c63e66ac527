// A block that was freed, whose memory the C library has given back to the system. What is mapped there
// since is no block.
#include "../races/twin.h"
#include <stdint.h>
#include <sys/mman.h>
#define SIZE (1 << 20)
#define PAGE 4096
static volatile long *shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void work(long number) {
    UNLESS_RACY(pthread_mutex_lock(&mutex);)
    shared[0] = number; // race: -
    UNLESS_RACY(pthread_mutex_unlock(&mutex);)
}
int main(void) {
    char *block = malloc(SIZE);
    memset(block, 1, SIZE);
    KEEP;
    uintptr_t inside = ((uintptr_t)block + SIZE / 2) / PAGE * PAGE;
    free(block);
    void *mapped = mmap((void *)inside, PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped != (void *)inside)
        return 1;
    shared = mapped;
    run_threads();
    return 0;
}
