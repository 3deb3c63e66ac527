// Each of two threads has what the other wants, and both wait, until an alarm ends the program; in one
// order they do not.
// found: deadlock
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_have_one;
static void *one(void *unused) {
    pthread_mutex_lock(&left);
#ifdef WRONG
    pthread_barrier_wait(&both_have_one);
#endif
    pthread_mutex_lock(&right);
    pthread_mutex_unlock(&right);
    pthread_mutex_unlock(&left);
    return unused;
}
static void *other(void *unused) {
#ifdef WRONG
    pthread_mutex_lock(&right);
    pthread_barrier_wait(&both_have_one);
    pthread_mutex_lock(&left);
    pthread_mutex_unlock(&left);
    pthread_mutex_unlock(&right);
    return unused;
#else
    return one(unused);
#endif
}
int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&both_have_one, NULL, 2);
    alarm(2);
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
