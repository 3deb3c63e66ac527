// Threads start and end all the time, some of them while others are starting theirs, and each one
// reads what all have written so far and adds to it; a few threads stay for the whole time.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdatomic.h>

#include "expect.h"

enum { STARTERS = 3, GENERATIONS = 60, WORDS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long words[WORDS];
static atomic_long started, over;

static void *add_one(void *unused) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WORDS; i++) {
        EXPECT(words[i] == words[0] - (i != 0));
        words[i]++;
    }
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&started, 1);
    return unused;
}

static void *start_others(void *unused) {
    for (int i = 0; i < GENERATIONS; i++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, add_one, NULL) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        add_one(NULL);
    }
    atomic_fetch_add(&over, 1);
    return unused;
}

int main(void) {
    pthread_t starters[STARTERS];
    for (int i = 0; i < STARTERS; i++)
        EXPECT(pthread_create(&starters[i], NULL, start_others, NULL) == 0);
    while (atomic_load(&over) < STARTERS)
        add_one(NULL);
    for (int i = 0; i < STARTERS; i++)
        EXPECT(pthread_join(starters[i], NULL) == 0);
    EXPECT(words[0] == atomic_load(&started));
    puts("nothing lost");
    return 0;
}
