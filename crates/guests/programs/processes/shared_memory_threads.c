// A process that shares its parent's memory asks for a thread. Observed it gets none, which is said:
// the call fails with EAGAIN, as where there are too many, and everything else goes on.
// flags: -O1 -D_GNU_SOURCE
// compare: status
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { STACK = 1 << 16 };

static char child_stack[STACK], thread_stack[STACK];
static atomic_int ran;

static int thread(void *unused) {
    (void)unused;
    ran = 1;
    syscall(SYS_exit, 0);
    return 0;
}

static int child(void *unused) {
    (void)unused;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (clone(thread, thread_stack + STACK, flags, NULL) == -1)
        return errno == EAGAIN ? 2 : 3;
    while (!ran)
        sched_yield();
    // The last thread's status is not the process's then.
    syscall(SYS_exit_group, 1);
    return 1;
}

int main(void) {
    int status;
    pid_t id = clone(child, child_stack + STACK, CLONE_VM | SIGCHLD, NULL);
    EXPECT(id > 0 && waitpid(id, &status, 0) == id && WIFEXITED(status));
    EXPECT(WEXITSTATUS(status) == (ran ? 1 : 2));
    puts(ran ? "a thread of its own" : "no thread");
    return 0;
}
