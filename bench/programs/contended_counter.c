/* Two POSIX threads on one atomic counter: each adds by fetch-and-add, then by
 * compare-and-swap. Argument: additions by each thread in each way. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_ulong counter;
static unsigned long additions;

static void *add(void *unused)
{
    for (unsigned long i = 0; i < additions; i++)
        atomic_fetch_add(&counter, 1);
    for (unsigned long i = 0; i < additions; i++) {
        unsigned long seen = atomic_load_explicit(&counter, memory_order_relaxed);
        while (!atomic_compare_exchange_weak(&counter, &seen, seen + 3))
            ;
    }
    return unused;
}

int main(int argc, char **argv)
{
    additions = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("contended_counter %lu %lu\n", additions, atomic_load(&counter));
    return 0;
}
