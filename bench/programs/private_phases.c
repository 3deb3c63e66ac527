/* Two POSIX threads that work on their own memory and meet at a barrier after each phase,
 * where each reads one word of the other. Argument: number of phases. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, WORDS = 1 << 15, ROUNDS_PER_PHASE = 8 };

struct worker {
    _Alignas(128) uint64_t published[2];
    uint64_t *words;
    uint64_t state;
};

static struct worker workers[THREADS];
static pthread_barrier_t barrier;
static int phases;

static void *work(void *argument)
{
    long me = (long)argument;
    struct worker *mine = &workers[me];
    for (int phase = 0; phase < phases; phase++) {
        for (int round = 0; round < ROUNDS_PER_PHASE; round++)
            for (int i = 0; i < WORDS; i++) {
                mine->state = mine->state * 6364136223846793005u + 1442695040888963407u;
                uint64_t other = mine->state >> 40 & (WORDS - 1);
                mine->words[i] += mine->words[other] ^ mine->state >> 33;
            }
        /* Two slots, so that one barrier a phase is enough. */
        mine->published[phase & 1] = mine->words[phase & (WORDS - 1)];
        pthread_barrier_wait(&barrier);
        mine->state ^= workers[1 - me].published[phase & 1];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    phases = argc > 1 ? atoi(argv[1]) : 10;
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        workers[i].words = calloc(WORDS, sizeof(uint64_t));
        workers[i].state = 88172645463325252u + i;
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        for (int word = 0; word < WORDS; word++)
            sum = sum * 31 + workers[i].words[word];
    }
    printf("private_phases %d %016llx\n", phases, (unsigned long long)sum);
    return 0;
}
