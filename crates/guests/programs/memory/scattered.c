// Mappings that lie far from each other, more than half of what the kernel allows: each is written
// by one thread and read by another.
// flags: -O2 -D_GNU_SOURCE -pthread
// limit: 120
#include <pthread.h>
#include <sys/mman.h>

#include "expect.h"

#define DISTANCE ((size_t)128 << 20)
enum { PAGE = 4096, MAPPINGS = 33000 };

static char *room;

static void *read_all(void *nothing) {
    for (long i = 0; i < MAPPINGS; i++) {
        volatile long *page = (void *)(room + (size_t)i * DISTANCE);
        EXPECT(*page == i);
    }
    return nothing;
}

static void *end_at_once(void *nothing) { return nothing; }

static void run(void *(*work)(void *)) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

int main(void) {
    run(end_at_once);
    // 4 TiB, of which a page here and there is used.
    room = mmap(NULL, MAPPINGS * DISTANCE, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(room != MAP_FAILED);
    EXPECT(munmap(room, MAPPINGS * DISTANCE) == 0);
    for (long i = 0; i < MAPPINGS; i++) {
        char *wanted = room + (size_t)i * DISTANCE;
        long *page = mmap(wanted, PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        EXPECT((char *)page == wanted);
        *page = i;
    }
    run(read_all);
    puts("all there");
    return 0;
}
