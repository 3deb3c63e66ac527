// Children in their parent's place (vfork) that change signals' dispositions and the memory's
// protection all the time, until another thread of the parent's kills them.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { CHILDREN = 2000 };

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
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pthread_create(&thread, NULL, kill_children, NULL) == 0);
    for (int number = 0; number < CHILDREN; number++) {
        pid_t id = vfork();
        if (id == 0) {
            struct sigaction action = {.sa_handler = SIG_IGN};
            atomic_store(&child, (int)syscall(SYS_getpid));
            for (;;) {
                sigaction(SIGUSR1, &action, NULL);
                mprotect(page, 4096, PROT_READ);
            }
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
