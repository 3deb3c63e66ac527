// Producers and consumers on a mutex and two condition variables, and a timed wait that
// must time out.
// flags: -O2 -pthread
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "expect.h"

enum { ITEMS = 1000, ROOM = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int items[ROOM], count, produced, consumed;
static long sum;

static void *produce(void *unused) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (count == ROOM)
            pthread_cond_wait(&not_full, &mutex);
        if (produced == ITEMS) {
            pthread_mutex_unlock(&mutex);
            pthread_cond_broadcast(&not_full);
            return unused;
        }
        items[count++] = ++produced;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
}

static void *consume(void *unused) {
    pthread_mutex_lock(&mutex);
    while (consumed < ITEMS) {
        while (count == 0 && consumed < ITEMS)
            pthread_cond_wait(&not_empty, &mutex);
        if (count > 0) {
            sum += items[--count];
            if (++consumed == ITEMS)
                pthread_cond_broadcast(&not_empty);
            pthread_cond_signal(&not_full);
        }
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, i < 2 ? produce : consume, NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    EXPECT(pthread_cond_timedwait(&not_empty, &mutex, &soon) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    printf("%ld\n", sum);
    return 0;
}
