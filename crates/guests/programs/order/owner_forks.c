// A thread forks while it and others own lines: parent and child each go on with their own
// copy, the child with one thread and lines whose owners do not exist there.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "expect.h"

enum { ROUNDS = 20, WORDS = 256 };

static atomic_long words[WORDS];
static atomic_int stop;

static void *keep_writing(void *unused) {
    while (!atomic_load(&stop))
        for (int i = 0; i < WORDS; i++)
            atomic_fetch_add(&words[i], 1);
    return unused;
}

int main(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, keep_writing, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            long before = atomic_load(&words[0]);
            for (int i = 0; i < WORDS; i++)
                atomic_fetch_add(&words[i], 1000000);
            _exit(atomic_load(&words[0]) == before + 1000000 ? round : 99);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == round);
    }
    atomic_store(&stop, 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(atomic_load(&words[0]) - atomic_load(&words[WORDS - 1]) <= 1);
    puts("the children wrote only their own copies");
    return 0;
}
