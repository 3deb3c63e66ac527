/* Two threads that tell their names, and a region around what they do together.
 *
 *   gcc -pthread -I crates/annotate/include crates/annotate/examples/named_threads.c
 */
#include <pthread.h>
#include <stdio.h>

#include "unspool.h"

static long total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *add(void *number)
{
    unspool_register_thread(*(int *)number, *(int *)number == 1 ? "first adder" : "second adder");
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        total += *(int *)number;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {1, 2};

    unspool_register_thread(0, "main");
    unspool_start_region();
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, add, &numbers[i]) != 0)
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    unspool_end_region();
    printf("%ld\n", total);
    return 0;
}
