// A process that has become another user's, who has as many processes as he may have, cannot
// execute a program: the kernel refuses it, although everything about the program is right, and
// the process goes on. Where it may not become that user, it says the same and executes nothing.
// flags: -O2 -pthread -D_GNU_SOURCE
// trace: no
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { USER = 64321 };

static atomic_long rounds;
static atomic_int over;

static void *compute(void *unused) {
    while (!over)
        atomic_fetch_add(&rounds, 1);
    return unused;
}

static int is_refused(void) {
    char *const arguments[] = {"true", NULL};
    char *const environment[] = {NULL};
    return execve("/bin/true", arguments, environment) == -1 && errno == EAGAIN;
}

int main(void) {
    int ends[2], ready[2];
    char byte = 0;
    if (geteuid() != 0) {
        puts("refused, and goes on");
        return 0;
    }
    EXPECT(pipe(ends) == 0 && pipe(ready) == 0);
    if (fork() == 0) {
        close(ends[1]);
        EXPECT(syscall(SYS_setuid, USER) == 0 && write(ready[1], &byte, 1) == 1);
        EXPECT(read(ends[0], &byte, 1) == 0);
        _exit(0);
    }
    close(ends[0]);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, compute, NULL) == 0);
    EXPECT(read(ready[0], &byte, 1) == 1);
    struct rlimit none = {0, 0};
    EXPECT(setrlimit(RLIMIT_NPROC, &none) == 0);
    // This thread alone: the kernel looks at the one that executes.
    EXPECT(syscall(SYS_setresuid, USER, USER, USER) == 0);
    EXPECT(is_refused());
    // The kernel looks once.
    long before = rounds;
    while (rounds == before)
        usleep(1000);
    over = 1;
    pthread_join(thread, NULL);
    close(ends[1]);
    wait(NULL);
    puts("refused, and goes on");
    return 0;
}
