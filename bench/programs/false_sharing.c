/* Two POSIX threads that write different words of the same few cache lines: nothing is
 * shared but the lines. Argument: number of rounds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINES = 4, WORDS_PER_LINE = 8 };

/* Relaxed atomics compile to plain moves and keep the compiler from holding the words in
 * registers. */
static _Alignas(64) atomic_ulong words[LINES][WORDS_PER_LINE];
static unsigned long rounds;

static void *count(void *argument)
{
    long me = (long)argument;
    for (unsigned long round = 0; round < rounds; round++) {
        atomic_ulong *word = &words[round % LINES][me * 4 + round / LINES % 4];
        unsigned long old = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, old * 3 + round, memory_order_relaxed);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    unsigned long sum = 0;
    for (int line = 0; line < LINES; line++)
        for (int word = 0; word < WORDS_PER_LINE; word++)
            sum = sum * 31 + words[line][word];
    printf("false_sharing %lu %016lx\n", rounds, sum);
    return 0;
}
