// Threads increment one counter by compare-and-swap until it reaches a total. Each counts its own
// increments and how often the value before was even: the order of all successful swaps in
// a trace must give the same counts; failed ones change nothing.
// flags: -O2 -pthread
// arguments: 4 2000
// compare: status
#include <pthread.h>
#include <stdlib.h>

#include "expect.h"
#include "unspool.h"

static _Alignas(128) long counter;
static long total;
static pthread_barrier_t start;

struct worker {
    pthread_t thread;
    long number, increments, evens, failures;
};

static void *increment(void *argument) {
    struct worker *worker = argument;
    unspool_register_thread(worker->number, "increment");
    pthread_barrier_wait(&start);
    long before = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    do {
        while (!__atomic_compare_exchange_n(&counter, &before, before + 1, 0,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            worker->failures++;
        worker->increments++;
        worker->evens += before % 2 == 0;
    } while (before < total);
    return NULL;
}

int main(int count, char **arguments) {
    EXPECT(count == 3);
    long threads = atol(arguments[1]);
    total = atol(arguments[2]);
    pthread_barrier_init(&start, NULL, threads);
    struct worker *workers = calloc(threads, sizeof *workers);
    for (long i = 0; i < threads; i++) {
        workers[i].number = i + 1;
        EXPECT(pthread_create(&workers[i].thread, NULL, increment, &workers[i]) == 0);
    }
    long sum = 0;
    for (long i = 0; i < threads; i++) {
        EXPECT(pthread_join(workers[i].thread, NULL) == 0);
        sum += workers[i].increments;
    }
    EXPECT(sum == counter && sum == total + threads);
    printf("counter %p\n", (void *)&counter);
    for (long i = 0; i < threads; i++)
        printf("thread %ld increments %ld evens %ld\n", workers[i].number,
               workers[i].increments, workers[i].evens);
    return 0;
}
