/* A pipeline of three POSIX threads joined by two bounded queues, each under one mutex
 * with condition variables: most of what the threads touch they share.
 * Argument: number of items. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 64 };

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    uint64_t items[CAPACITY];
    unsigned taken, put;
};

static struct queue first = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
                              PTHREAD_COND_INITIALIZER, { 0 }, 0, 0 };
static struct queue second = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
                               PTHREAD_COND_INITIALIZER, { 0 }, 0, 0 };
static unsigned items;

static void put(struct queue *queue, uint64_t item)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->put - queue->taken == CAPACITY)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    queue->items[queue->put++ % CAPACITY] = item;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static uint64_t take(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->put == queue->taken)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    uint64_t item = queue->items[queue->taken++ % CAPACITY];
    pthread_cond_signal(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

static uint64_t mix(uint64_t value, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        value ^= value >> 27;
        value *= 0x9e3779b97f4a7c15u;
    }
    return value;
}

static void *transform(void *unused)
{
    for (unsigned i = 0; i < items; i++)
        put(&second, mix(take(&first), 20));
    return unused;
}

static void *produce(void *unused)
{
    for (unsigned i = 0; i < items; i++)
        put(&first, mix(i + 1, 10));
    return unused;
}

int main(int argc, char **argv)
{
    items = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
    pthread_t producer, transformer;
    pthread_create(&producer, NULL, produce, NULL);
    pthread_create(&transformer, NULL, transform, NULL);
    uint64_t sum = 0;
    for (unsigned i = 0; i < items; i++)
        sum = sum * 31 + take(&second);
    pthread_join(producer, NULL);
    pthread_join(transformer, NULL);
    printf("mutex_pipeline %u %016llx\n", items, (unsigned long long)sum);
    return 0;
}
