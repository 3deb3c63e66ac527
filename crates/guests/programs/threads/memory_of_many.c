// As many threads as asked for, alive at once, and then how much memory the process has: on a
// line of its own, in bytes, its pages and the kernel's tables for them.
// flags: -O2 -pthread
// arguments: 20
// compare: status
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static pthread_barrier_t alive, end;
static size_t touched;

static void *stay(void *argument) {
    volatile char *stack = __builtin_alloca(touched + 1);
    for (size_t at = 0; at < touched; at += 4096)
        stack[at] = 1;
    pthread_barrier_wait(&alive);
    pthread_barrier_wait(&end);
    return argument;
}

static long kilobytes(const char *file, const char *name) {
    char line[256];
    long value = -1;
    FILE *facts = fopen(file, "r");
    EXPECT(facts);
    while (fgets(line, sizeof line, facts))
        if (strncmp(line, name, strlen(name)) == 0)
            EXPECT(sscanf(line + strlen(name), "%ld", &value) == 1);
    fclose(facts);
    EXPECT(value >= 0);
    return value;
}

// Threads, and how many bytes of its stack each of them uses.
int main(int count, char **arguments) {
    EXPECT(count > 1);
    int threads = atoi(arguments[1]);
    touched = count > 2 ? strtoul(arguments[2], NULL, 0) : 0;
    EXPECT(threads > 0 && pthread_barrier_init(&alive, NULL, (unsigned)threads + 1) == 0);
    EXPECT(pthread_barrier_init(&end, NULL, (unsigned)threads + 1) == 0);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (int i = 0; i < threads; i++)
        EXPECT(pthread_create(&ids[i], &small, stay, NULL) == 0);
    pthread_barrier_wait(&alive);
    long size = kilobytes("/proc/self/smaps_rollup", "Rss:") + kilobytes("/proc/self/status", "VmPTE:");
    printf("%ld\n", size * 1024);
    fflush(stdout);
    pthread_barrier_wait(&end);
    for (int i = 0; i < threads; i++)
        EXPECT(pthread_join(ids[i], NULL) == 0);
    return 0;
}
