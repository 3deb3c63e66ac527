// Threads with small stacks load a library, call its function and unload it, all at the same
// time, so that it comes and goes while it is called. Prints how often it was called.
// flags: -O2 -pthread -rdynamic
// plugins: parts/hammered.c
// compare: status

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 100, CALLS = 10 };

static atomic_long calls;
static char path[PATH_MAX];

void note_call(void) { atomic_fetch_add(&calls, 1); }

static void *work(void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        void *library = dlopen(path, RTLD_NOW);
        if (library == NULL)
            return (void *)1;
        int (*hammered)(int) = (int (*)(int))dlsym(library, "hammered");
        for (int call = 0; call < CALLS; call++)
            if (hammered(call) != call + 1)
                return (void *)1;
        dlclose(library);
    }
    return NULL;
}

int main(void) {
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
    if (length < 0)
        return 1;
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, "hammered.so");
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32 << 10);
    pthread_t threads[THREADS];
    for (int number = 0; number < THREADS; number++)
        if (pthread_create(&threads[number], &small, work, NULL) != 0)
            return 1;
    int failed = 0;
    for (int number = 0; number < THREADS; number++) {
        void *result;
        pthread_join(threads[number], &result);
        failed |= result != NULL;
    }
    printf("%ld calls\n", (long)atomic_load(&calls));
    return failed;
}
