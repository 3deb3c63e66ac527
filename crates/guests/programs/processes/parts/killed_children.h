// Children in their parent's place (vfork), each killed by another thread of the parent's after another
// number of rounds.
#ifndef UNSPOOL_GUESTS_KILLED_CHILDREN_H
#define UNSPOOL_GUESTS_KILLED_CHILDREN_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { CHILDREN = 2000 };

static atomic_int child;

static void *kill_each(void *unused) {
    for (int number = 0; number < CHILDREN; number++) {
        int id;
        while ((id = atomic_load(&child)) == 0)
            sched_yield();
        for (volatile int wait = number * 7 % 2000; wait > 0; wait--)
            ;
        EXPECT(kill(id, SIGKILL) == 0);
        while (atomic_load(&child) == id)
            sched_yield();
    }
    return unused;
}

// Has each child act again and again until it is killed.
static inline void kill_children_that(void (*act)(void)) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, kill_each, NULL) == 0);
    for (int number = 0; number < CHILDREN; number++) {
        pid_t id = vfork();
        if (id == 0) {
            atomic_store(&child, (int)syscall(SYS_getpid));
            for (;;)
                act();
        }
        int status;
        EXPECT(id > 0 && waitpid(id, &status, 0) == id);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        atomic_store(&child, 0);
    }
    pthread_join(thread, NULL);
    puts("all killed");
}

#endif
