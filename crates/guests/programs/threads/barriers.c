// Phases between barriers: what all threads wrote in one phase, all read in the next.
// flags: -O2 -pthread
#include <pthread.h>

#include "expect.h"

enum { THREADS = 5, PHASES = 100 };

static pthread_barrier_t barrier;
static int cells[2][THREADS];

static void *step(void *argument) {
    size_t me = (size_t)argument;
    int serial = 0;
    for (int phase = 0; phase < PHASES; phase++) {
        int sum = 0;
        for (int i = 0; i < THREADS; i++)
            sum += cells[phase % 2][i];
        cells[(phase + 1) % 2][me] = sum % 1000 + 1;
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    }
    return (void *)(size_t)serial;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, step, (void *)i) == 0);
    size_t serial = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        EXPECT(pthread_join(threads[i], &result) == 0);
        serial += (size_t)result;
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT(cells[PHASES % 2][i] == cells[PHASES % 2][0]);
    printf("%d after %zu phases\n", cells[PHASES % 2][0], serial);
    return 0;
}
