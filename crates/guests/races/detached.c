// A detached thread says under a lock that it is done; the racy twin's says so too early.
#define OWN_THREADS
#include "twin.h"
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_done;
long value;
static void *gives(void *argument) {
    (void)argument;
    UNLESS_RACY(value = 1;)
    pthread_mutex_lock(&mutex);
    is_done = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    IF_RACY(value = 1;) // race: value
    KEEP;
    return NULL;
}
int main(void) {
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &detached, gives, NULL);
    pthread_mutex_lock(&mutex);
    while (!is_done)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    long seen = value; // race: value
    KEEP;
    IF_RACY(usleep(50000);)
    return seen == 2;
}
