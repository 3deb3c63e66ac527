// Touches so many new pages in each of two functions, one of which runs in another thread too. With a
// number it sleeps for so many seconds before.
// flags: -O2 -fomit-frame-pointer -pthread
// variants: static stripped

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/burn.h"

enum { PAGE = 4096, FEW = 100, MANY = 600 };

static char *new_pages(long pages) {
    char *start = mmap(NULL, (size_t)(pages * PAGE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // A fault for each page, not for many at once.
    madvise(start, (size_t)(pages * PAGE), MADV_NOHUGEPAGE);
    return start;
}

static void touch(volatile char *start, long pages) {
    for (long page = 0; page < pages; page++)
        start[page * PAGE] = 1;
}

APART void touches_few(char *start) {
    touch(start, FEW);
    asm volatile("");
}

APART void touches_many(char *start) {
    touch(start, MANY);
    asm volatile("");
}

static void *other_thread(void *start) {
    touches_few(start);
    return NULL;
}

int main(int count, char **arguments) {
    if (count > 1)
        sleep((unsigned)atoi(arguments[1]));
    pthread_t thread;
    if (pthread_create(&thread, NULL, other_thread, new_pages(FEW)) != 0)
        return 1;
    pthread_join(thread, NULL);
    touches_few(new_pages(FEW));
    touches_many(new_pages(MANY));
    burn(0.05);
    return 0;
}
