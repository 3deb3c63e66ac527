// The destructor of a thread's own data writes what is read behind its join, or before.
#define OWN_THREADS
#include "twin.h"
long result;
static pthread_key_t key;
static pthread_barrier_t met;
static void destroy(void *data) {
    (void)data;
    result = 3; // race: result
    KEEP;
}
static void *has_data(void *argument) {
    (void)argument;
    pthread_setspecific(key, &result);
    pthread_barrier_wait(&met);
    return NULL;
}
int main(void) {
    pthread_t thread;
    pthread_key_create(&key, destroy);
    pthread_barrier_init(&met, NULL, 2);
    pthread_create(&thread, NULL, has_data, NULL);
    pthread_barrier_wait(&met);
    IF_RACY(result = 2;) // race: result
    KEEP;
    pthread_join(thread, NULL);
    return result == 0;
}
