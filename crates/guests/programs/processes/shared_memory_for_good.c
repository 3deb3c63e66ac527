// Child processes that share all memory with their parent and run beside it (clone with
// CLONE_VM alone): they have their own descriptors, signals and endings.
// flags: -O2 -D_GNU_SOURCE
// variants: static
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "expect.h"

#define STACK (256 * 1024)

static atomic_int turn, ready;
static atomic_long sum;
static int descriptor;
static pid_t told;

// The child may run while its parent does: they take turns, without system calls.
static int take_turns(void *unused) {
    (void)unused;
    told = getpid();
    close(descriptor);
    atomic_store(&ready, 1);
    for (int i = 0; i < 1000; i++) {
        while (atomic_load(&turn) != 1)
            __builtin_ia32_pause();
        atomic_fetch_add(&sum, i);
        atomic_store(&turn, 0);
    }
    return 42;
}

static int die(void *unused) {
    (void)unused;
    atomic_fetch_add(&sum, 1);
    raise(SIGTERM);
    return 0;
}

static int execute(void *argument) {
    char *const arguments[] = {"sh", "-c", "exit 7", NULL};
    char *const environment[] = {NULL};
    execve(argument, arguments, environment);
    return errno == ENOENT ? 8 : 9;
}

static int fork_again(void *unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    int status;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5 ? 6 : 1;
}

static int end(int (*run)(void *), void *argument, int flags) {
    char *stack = malloc(STACK);
    pid_t child = clone(run, stack + STACK, CLONE_VM | flags | SIGCHLD, argument);
    EXPECT(child > 0);
    if (run == take_turns) {
        while (!atomic_load(&ready))
            __builtin_ia32_pause();
        EXPECT(told == child && child != getpid());
        for (int i = 0; i < 1000; i++) {
            atomic_store(&turn, 1);
            while (atomic_load(&turn) != 0)
                __builtin_ia32_pause();
            atomic_fetch_add(&sum, i);
        }
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    free(stack);
    return status;
}

int main(void) {
    descriptor = dup(1);
    int status = end(take_turns, NULL, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    EXPECT(write(descriptor, "open\n", 5) == 5);
    status = end(die, NULL, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = end(execute, "/bin/sh", CLONE_FS);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    status = end(execute, "/nowhere", 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 8);
    status = end(fork_again, NULL, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 6);
    printf("%ld\n", atomic_load(&sum));
    return 0;
}
