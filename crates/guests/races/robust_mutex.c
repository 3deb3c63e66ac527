// A robust mutex whose owner ends without giving it back: the next one takes over what it guards.
#define OWN_THREADS
#include "twin.h"
#include <errno.h>
static pthread_mutex_t mutex;
static pthread_barrier_t taken;
long counter;
static void *ends(void *argument) {
    (void)argument;
    pthread_mutex_lock(&mutex);
    UNLESS_RACY(counter++;)
    pthread_barrier_wait(&taken);
    IF_RACY(counter++;) // race: counter
    KEEP;
    return NULL;
}
int main(void) {
    pthread_mutexattr_t kind;
    pthread_t thread;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &kind);
    pthread_barrier_init(&taken, NULL, 2);
    pthread_create(&thread, NULL, ends, NULL);
    pthread_barrier_wait(&taken);
    UNLESS_RACY(if (pthread_mutex_lock(&mutex) == EOWNERDEAD) pthread_mutex_consistent(&mutex);)
    counter++; // race: counter
    KEEP;
    UNLESS_RACY(pthread_mutex_unlock(&mutex);)
    pthread_join(thread, NULL);
    return counter == 0;
}
