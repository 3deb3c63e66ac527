// The clone system call without a thread library: a child that shares memory and files but
// is a process of its own, on a stack that the program made, and one that shares nothing.
// flags: -O2 -D_GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "expect.h"

static volatile int shared;

static int child(void *argument) {
    shared += (int)(size_t)argument;
    return shared;
}

int main(void) {
    size_t size = 256 * 1024;
    char *stack = aligned_alloc(4096, size);
    int status;
    pid_t pid = clone(child, stack + size, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void *)11);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 11 && shared == 11);
    pid = clone(child, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)20);
    EXPECT(pid > 0 && shared == 31 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 31);
    pid = clone(child, stack + size, SIGCHLD, (void *)40);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 71 && shared == 31);
    puts("cloned");
    return 0;
}
