// Two threads hand a turn back and forth by spinning on a plain word, with no system call
// and no atomic instruction in between.
// flags: -O2 -pthread
#include <pthread.h>

#include "expect.h"

enum { TURNS = 400 };

static _Alignas(64) volatile int turn;
static _Alignas(64) volatile long sum;

static void *play(void *argument) {
    int me = (int)(size_t)argument;
    for (int i = 0; i < TURNS; i++) {
        while (turn != me)
            __asm__ volatile("pause");
        sum += i;
        turn = !me;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, play, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%ld\n", sum);
    return 0;
}
