// A process whose children belong to another PID namespace, so that the kernel gives it no thread,
// makes a child that shares its memory and runs beside it.
// flags: -O1 -D_GNU_SOURCE
// compare: status
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "expect.h"

static atomic_int said;

static int child(void *unused) {
    (void)unused;
    said = getpid();
    return 7;
}

int main(void) {
    static char stack[1 << 16];
    int status;
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
        puts("no namespaces here");
        return 0;
    }
    pid_t id = clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    EXPECT(id > 0);
    EXPECT(waitpid(id, &status, 0) == id);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    EXPECT(said == 1);
    puts("in a namespace of its own");
    return 0;
}
