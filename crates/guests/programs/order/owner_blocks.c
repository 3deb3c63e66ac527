// A thread writes lines and blocks in the kernel, in read and in a futex wait; another
// takes the lines meanwhile, and the first finds them changed when it wakes.
// flags: -O2 -pthread
#include <pthread.h>
#include <semaphore.h>

#include "expect.h"

enum { ROUNDS = 100, WORDS = 64 };

static volatile long words[WORDS];
static int wake[2];
static sem_t blocking, done;

static void *owner(void *unused) {
    for (long round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = round;
        sem_post(&blocking);
        if (round % 2) {
            char byte;
            EXPECT(read(wake[0], &byte, 1) == 1);
        } else {
            sem_wait(&done);
        }
        for (int i = 0; i < WORDS; i++)
            EXPECT(words[i] == -round);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    EXPECT(pipe(wake) == 0 && sem_init(&blocking, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    EXPECT(pthread_create(&thread, NULL, owner, NULL) == 0);
    for (long round = 0; round < ROUNDS; round++) {
        sem_wait(&blocking);
        for (int i = 0; i < WORDS; i++) {
            EXPECT(words[i] == round);
            words[i] = -round;
        }
        if (round % 2)
            EXPECT(write(wake[1], "w", 1) == 1);
        else
            sem_post(&done);
    }
    EXPECT(pthread_join(thread, NULL) == 0);
    puts("each saw what the other wrote");
    return 0;
}
