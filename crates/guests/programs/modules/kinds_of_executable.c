// One program in every kind of executable: dynamic, static, static-PIE, at a fixed address,
// stripped, unoptimised. Uses threads, thread-locals, indirect functions and the vdso.
// flags: -O2 -pthread
// variants: static, static-pie, non-pie, stripped, unoptimised, clang
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "expect.h"

static __thread int mine = 3;
static int order[3], entries;

__attribute__((constructor)) static void before_main(void) {
    order[entries++] = 1;
}

static void at_exit(void) {
    puts("after main");
}

static void *run(void *argument) {
    mine += 4;
    return memcpy(malloc(100), argument, 100);
}

int main(int count, char **arguments) {
    pthread_t thread;
    void *copy;
    struct timespec now;
    char text[100] = "copied by an indirect function";
    order[entries++] = 2;
    atexit(at_exit);
    EXPECT(count == 1 && arguments[0] && clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    EXPECT(pthread_create(&thread, NULL, run, text) == 0 && pthread_join(thread, &copy) == 0);
    EXPECT(strcmp(copy, text) == 0 && mine == 3);
    printf("%d %d %s\n", order[0], order[1], (char *)copy);
    return 0;
}
