// A thread that another one made and joined: order goes through both.
#define OWN_THREADS
#include "twin.h"
long value;
static void *inner(void *argument) {
    (void)argument;
    value++; // race: value
    KEEP;
    return NULL;
}
static void *outer(void *argument) {
    pthread_t thread;
    pthread_create(&thread, NULL, inner, argument);
    UNLESS_RACY(pthread_join(thread, NULL);)
    value++; // race: value
    KEEP;
    IF_RACY(pthread_join(thread, NULL);)
    return NULL;
}
int main(void) {
    pthread_t thread;
    value = 1;
    pthread_create(&thread, NULL, outer, NULL);
    pthread_join(thread, NULL);
    return value == 0;
}
