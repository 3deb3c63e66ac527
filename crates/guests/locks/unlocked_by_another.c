// A mutex is unlocked by the thread that holds it, or by another.
// found: unlock-of-others
#include <pthread.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *unused) {
#ifdef WRONG
    pthread_mutex_unlock(&mutex);
#endif
    return unused;
}
int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
#ifndef WRONG
    pthread_mutex_unlock(&mutex);
#endif
    return 0;
}
