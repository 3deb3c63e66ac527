// Each program here is two: as it stands it has no race, and with RACY defined it has those that its
// comments `race: VARIABLE` label, on all lines that may be a side of one. VARIABLE is `-` for memory
// without a name of its own.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

#ifdef RACY
#define UNLESS_RACY(code)
#define IF_RACY(code) code
#else
#define UNLESS_RACY(code) code
#define IF_RACY(code)
#endif

// The compiler keeps memory accesses on their sides of this.
#define KEEP __asm__ volatile("" ::: "memory")

#ifndef THREADS
#define THREADS 2
#endif
#ifndef ROUNDS
#define ROUNDS 20
#endif

// With OWN_THREADS a program makes its threads itself.
#ifndef OWN_THREADS
static pthread_barrier_t together;

// Runs `work` in each thread, with its number, and joins all. All have begun before any goes on: what
// they do behind that nothing orders but what they do themselves.
static void *begin(void *);
static void work(long number);

static void *begin(void *number) {
    pthread_barrier_wait(&together);
    work((long)number);
    return NULL;
}

static inline void run_threads(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (long number = 0; number < THREADS; number++)
        pthread_create(&threads[number], NULL, begin, (void *)number);
    for (long number = 0; number < THREADS; number++)
        pthread_join(threads[number], NULL);
}
#endif
