// Two threads take two mutexes each in its own order, with a third around both, or without it.
// found: possible-deadlock
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER,
                       gate = PTHREAD_MUTEX_INITIALIZER;
static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
#ifndef WRONG
    pthread_mutex_lock(&gate);
#endif
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
#ifndef WRONG
    pthread_mutex_unlock(&gate);
#endif
}
static void *one(void *unused) {
    both(&left, &right);
    return unused;
}
static void *other(void *unused) {
#ifdef WRONG
    // Behind the first thread in time, and by nothing else: it must not come to the deadlock.
    usleep(200000);
#endif
    both(&right, &left);
    return unused;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
