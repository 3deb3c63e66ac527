// A mutex is destroyed when nobody holds it, or before.
// found: destroyed-while-held
#include <pthread.h>
int main(void) {
    pthread_mutex_t mutex;
    pthread_mutex_init(&mutex, NULL);
    pthread_mutex_lock(&mutex);
#ifdef WRONG
    pthread_mutex_destroy(&mutex);
#else
    pthread_mutex_unlock(&mutex);
    pthread_mutex_destroy(&mutex);
#endif
    return 0;
}
