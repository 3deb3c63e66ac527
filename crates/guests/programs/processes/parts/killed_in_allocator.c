// Children in their parent's place (vfork) that try to execute programs which are not there, with long
// lists of arguments, until another thread of the parent's kills them.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum { CHILDREN = 2000, WORDS = 200 };

static atomic_int child;

// Kills each child after another number of rounds.
static void *kill_children(void *unused) {
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

int main(void) {
    pthread_t thread;
    static char *words[WORDS + 1];
    for (int number = 0; number < WORDS; number++)
        words[number] = "a word of some length, of which the engine makes a copy";
    EXPECT(pthread_create(&thread, NULL, kill_children, NULL) == 0);
    for (int number = 0; number < CHILDREN; number++) {
        pid_t id = vfork();
        if (id == 0) {
            atomic_store(&child, (int)syscall(SYS_getpid));
            for (;;)
                execve("/not/there", words, words);
        }
        int status;
        EXPECT(id > 0 && waitpid(id, &status, 0) == id);
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        atomic_store(&child, 0);
    }
    pthread_join(thread, NULL);
    puts("all killed");
    return 0;
}
