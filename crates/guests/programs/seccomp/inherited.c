// Threads, forked and spawned children and new programs are under the filters of who made them;
// what a child installs, its parent is not under.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <spawn.h>

#include "filters.h"

extern char **environ;

static void add(int number, unsigned result) {
    FILTER(rules, LOAD(nr), IF(number, result), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&rules, 0) == 0);
}

#define IS_FORBIDDEN(number) (syscall(number) == -1 && errno == EPROTO)

static void *in_thread(void *nothing) {
    EXPECT(IS_FORBIDDEN(SYS_getppid));
    add(SYS_getuid, SECCOMP_RET_ERRNO | EPROTO);
    EXPECT(IS_FORBIDDEN(SYS_getuid));
    return nothing;
}

static void in_child(void) {
    EXPECT(IS_FORBIDDEN(SYS_getppid));
    add(SYS_getgid, SECCOMP_RET_ERRNO | EPROTO);
    EXPECT(IS_FORBIDDEN(SYS_getgid));
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(IS_FORBIDDEN(SYS_getppid) && IS_FORBIDDEN(SYS_getgid) ? 3 : 1);
    int status = 0;
    waitpid(grandchild, &status, 0);
    _exit(EXITS_WITH(status, 3) ? 4 : 1);
}

static int next_program(char *name) {
    char *arguments[] = {name, "again", NULL};
    pid_t child = 0;
    int status = 0;
    EXPECT(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
    EXPECT(waitpid(child, &status, 0) == child);
    return status;
}

int main(int count, char **arguments) {
    if (count > 1) {
        EXPECT(IS_FORBIDDEN(SYS_getppid) && prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
        if (strcmp(arguments[1], "again") == 0) {
            char *next[] = {arguments[0], "once more", NULL};
            add(SYS_getgid, SECCOMP_RET_ERRNO | EPROTO);
            execve("/proc/self/exe", next, environ);
            return 1;
        }
        EXPECT(IS_FORBIDDEN(SYS_getgid));
        return 5;
    }
    add(SYS_getppid, SECCOMP_RET_ERRNO | EPROTO);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(EXITS_WITH(ending_of(in_child), 4));
    EXPECT(EXITS_WITH(next_program(arguments[0]), 5));
    EXPECT(IS_FORBIDDEN(SYS_getppid) && !IS_FORBIDDEN(SYS_getuid) && !IS_FORBIDDEN(SYS_getgid));
    // Programs that know nothing of it.
    EXPECT(system("exec 3</dev/null; echo from a shell; ls /dev/null | cat") == 0);
    puts("end");
}
