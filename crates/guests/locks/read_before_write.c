// Threads that only read may take two locks in either order; where each writes the second, they may not.
// found: possible-deadlock
#include <pthread.h>
#include <unistd.h>
static pthread_rwlock_t left = PTHREAD_RWLOCK_INITIALIZER, right = PTHREAD_RWLOCK_INITIALIZER;
static void both(pthread_rwlock_t *first, pthread_rwlock_t *second) {
    pthread_rwlock_rdlock(first);
#ifdef WRONG
    pthread_rwlock_wrlock(second);
#else
    pthread_rwlock_tryrdlock(second);
#endif
    pthread_rwlock_unlock(second);
    pthread_rwlock_unlock(first);
}
static void *one(void *unused) {
    both(&left, &right);
    return unused;
}
static void *other(void *unused) {
    // Behind the first thread in time, and by nothing else.
    usleep(200000);
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
