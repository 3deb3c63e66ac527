// A thread waits for a condition with the mutex, or without having locked it.
// found: wait-without-lock
#include <pthread.h>
#include <time.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
int main(void) {
    struct timespec past = {1, 0};
    pthread_mutex_lock(&mutex);
#ifdef WRONG
    pthread_mutex_unlock(&mutex);
#endif
    pthread_cond_timedwait(&condition, &mutex, &past);
    pthread_mutex_unlock(&mutex);
    return 0;
}
