// Items on the heap go through a queue under a lock; the racy twin changes one that it has given.
#include "twin.h"
struct item { struct item *next; long value; };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t taken;
static struct item *queue;
static void give(long value) {
    struct item *item = malloc(sizeof *item);
    item->value = value;
    pthread_mutex_lock(&mutex);
    item->next = queue;
    queue = item;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    IF_RACY(item->value = -value;) // race: -
    KEEP;
    IF_RACY(pthread_barrier_wait(&taken);)
}
static long take(void) {
    pthread_mutex_lock(&mutex);
    while (queue == NULL)
        pthread_cond_wait(&changed, &mutex);
    struct item *item = queue;
    queue = item->next;
    pthread_mutex_unlock(&mutex);
    long value = item->value; // race: -
    KEEP;
    UNLESS_RACY(free(item);)
    IF_RACY(pthread_barrier_wait(&taken);)
    return value;
}
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++)
        if (number == 0)
            give(round);
        else if (take() == 1000)
            abort();
}
int main(void) {
    pthread_barrier_init(&taken, NULL, 2);
    run_threads();
    return 0;
}
