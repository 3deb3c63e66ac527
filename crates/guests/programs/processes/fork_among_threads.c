// Forks from several threads at once while others allocate and lock; the child allocates,
// prints, starts a thread of its own. Fork handlers run in their order.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "expect.h"

enum { FORKERS = 3, FORKS = 8 };

static atomic_int stop, prepared, in_parent;
static int in_child;

static void prepare(void) { atomic_fetch_add(&prepared, 1); }
static void parent(void) { atomic_fetch_add(&in_parent, 1); }
static void child_side(void) { in_child++; }

static void *allocate(void *unused) {
    while (!atomic_load(&stop))
        free(malloc(100 + rand() % 5000));
    return unused;
}

static void *in_new_thread(void *argument) {
    free(malloc(12345));
    return argument;
}

static void *forker(void *unused) {
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            pthread_t thread;
            void *result = NULL, *sent = &in_child;
            free(malloc(5000));
            EXPECT(in_child == 1);
            EXPECT(pthread_create(&thread, NULL, in_new_thread, sent) == 0);
            EXPECT(pthread_join(thread, &result) == 0 && result == sent);
            exit(i);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == i);
    }
    return unused;
}

int main(void) {
    pthread_t allocator, forkers[FORKERS];
    pthread_atfork(prepare, parent, child_side);
    pthread_create(&allocator, NULL, allocate, NULL);
    for (int i = 0; i < FORKERS; i++)
        pthread_create(&forkers[i], NULL, forker, NULL);
    for (int i = 0; i < FORKERS; i++)
        pthread_join(forkers[i], NULL);
    atomic_store(&stop, 1);
    pthread_join(allocator, NULL);
    printf("%d %d\n", prepared, in_parent);
    return 0;
}
