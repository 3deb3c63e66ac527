// Three hundred threads at once, on however few processors: a mutex, an atomic counter and
// words of their own on shared lines.
// flags: -O2 -pthread
// limit: 120
#include <pthread.h>
#include <stdatomic.h>

#include "expect.h"

enum { THREADS = 300, ADDS = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static long guarded;
static atomic_long shared;
static long own[THREADS];

static void *add(void *argument) {
    size_t number = (size_t)argument;
    pthread_barrier_wait(&all);
    for (int i = 0; i < ADDS; i++) {
        pthread_mutex_lock(&mutex);
        guarded++;
        pthread_mutex_unlock(&mutex);
        atomic_fetch_add(&shared, 1);
        own[number]++;
    }
    return NULL;
}

int main(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    pthread_barrier_init(&all, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], &attributes, add, (void *)i) == 0);
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
        sum += own[i];
    }
    printf("%ld %ld %ld\n", guarded, atomic_load(&shared), sum);
    return 0;
}
