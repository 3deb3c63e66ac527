// A child process that shares the parent's memory and runs beside it: neither a thread nor
// an ordinary process.
// flags: -O2 -D_GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "expect.h"

static atomic_int counter;

static int child(void *unused) {
    for (int i = 0; i < 1000; i++)
        atomic_fetch_add(&counter, 1);
    return unused != NULL;
}

int main(void) {
    size_t size = 256 * 1024;
    char *stack = aligned_alloc(4096, size);
    int status;
    pid_t pid = clone(child, stack + size, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);
    EXPECT(pid > 0);
    for (int i = 0; i < 1000; i++)
        atomic_fetch_add(&counter, 1);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    printf("%d\n", atomic_load(&counter));
    return 0;
}
