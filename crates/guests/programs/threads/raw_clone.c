// The clone system call without a thread library: children on a stack that the program
// made, sharing its memory until they exit, sharing its files, and sharing nothing.
// flags: -O2 -D_GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "expect.h"

static volatile int shared;

static int child(void *argument) {
    shared += (int)(size_t)argument;
    if (argument == (void *)40)
        close(20);
    return shared;
}

int main(void) {
    size_t size = 256 * 1024;
    char *stack = aligned_alloc(4096, size);
    int status;
    EXPECT(dup2(1, 20) == 20);
    pid_t pid = clone(child, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)20);
    EXPECT(pid > 0 && shared == 20 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 20);
    pid = clone(child, stack + size, CLONE_FS | CLONE_FILES | SIGCHLD, (void *)40);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 60 && shared == 20);
    EXPECT(fcntl(20, F_GETFD) == -1);
    pid = clone(child, stack + size, SIGCHLD, (void *)50);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 70 && shared == 20);
    puts("cloned");
    return 0;
}
