// A mutex that checks for errors is locked again by its holder, or one that may be locked again is.
// found: locked-twice
#define _GNU_SOURCE
#include <pthread.h>
int main(void) {
#ifdef WRONG
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
#else
    pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
#endif
    pthread_mutex_lock(&mutex);
    if (pthread_mutex_lock(&mutex) == 0)
        pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}
