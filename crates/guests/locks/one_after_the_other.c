// Two threads take two mutexes each in its own order: one after the other, or at a time.
// found: possible-deadlock
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
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
#ifdef WRONG
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
#else
    pthread_join(threads[0], NULL);
    pthread_create(&threads[1], NULL, other, NULL);
#endif
    pthread_join(threads[1], NULL);
    return 0;
}
