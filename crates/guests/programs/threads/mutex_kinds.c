// Recursive, error-checking, priority-inheriting and robust mutexes, a read-write lock and
// a spin lock. An argument says how often each is taken by each thread.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "expect.h"

static pthread_mutex_t mutexes[4];
static pthread_rwlock_t read_write = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static long sums[4], read_write_sum, spin_sum;
static int times = 500;

static void *add(void *unused) {
    for (int i = 0; i < times; i++) {
        for (int kind = 0; kind < 4; kind++) {
            EXPECT(pthread_mutex_lock(&mutexes[kind]) == 0);
            sums[kind]++;
            EXPECT(pthread_mutex_unlock(&mutexes[kind]) == 0);
        }
        pthread_rwlock_rdlock(&read_write);
        long seen = read_write_sum;
        pthread_rwlock_unlock(&read_write);
        pthread_rwlock_wrlock(&read_write);
        EXPECT(read_write_sum >= seen);
        read_write_sum++;
        pthread_rwlock_unlock(&read_write);
        pthread_spin_lock(&spin);
        spin_sum++;
        pthread_spin_unlock(&spin);
    }
    return unused;
}

static void *die_with_lock(void *mutex) {
    pthread_mutex_lock(mutex);
    return NULL;
}

int main(int count, char **arguments) {
    if (count > 1)
        times = atoi(arguments[1]);
    pthread_mutexattr_t attributes[4];
    for (int kind = 0; kind < 4; kind++)
        pthread_mutexattr_init(&attributes[kind]);
    pthread_mutexattr_settype(&attributes[0], PTHREAD_MUTEX_RECURSIVE);
    pthread_mutexattr_settype(&attributes[1], PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutexattr_setprotocol(&attributes[2], PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_setrobust(&attributes[3], PTHREAD_MUTEX_ROBUST);
    for (int kind = 0; kind < 4; kind++)
        EXPECT(pthread_mutex_init(&mutexes[kind], &attributes[kind]) == 0);
    pthread_spin_init(&spin, 0);

    pthread_t threads[3], dying;
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, add, NULL) == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);

    EXPECT(pthread_mutex_lock(&mutexes[0]) == 0 && pthread_mutex_lock(&mutexes[0]) == 0);
    EXPECT(pthread_mutex_lock(&mutexes[1]) == 0 && pthread_mutex_lock(&mutexes[1]) == EDEADLK);
    // The kernel tells the next owner that the last one died: the robust list.
    EXPECT(pthread_create(&dying, NULL, die_with_lock, &mutexes[3]) == 0);
    EXPECT(pthread_join(dying, NULL) == 0);
    EXPECT(pthread_mutex_lock(&mutexes[3]) == EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(&mutexes[3]) == 0);
    for (int kind = 0; kind < 4; kind++)
        printf("%ld ", sums[kind]);
    printf("%ld %ld\n", read_write_sum, spin_sum);
    return 0;
}
