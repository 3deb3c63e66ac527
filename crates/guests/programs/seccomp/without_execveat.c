// Under a filter that makes execveat unknown, as to kernels that do not have it. What follows on
// the command line is executed under it.
// flags: -O1 -D_GNU_SOURCE
#include "filters.h"

extern char **environ;

int main(int count, char **arguments) {
    FILTER(without, LOAD(nr), IF(SYS_execveat, SECCOMP_RET_ERRNO | ENOSYS), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&without, 0) == 0);
    if (count > 1) {
        execve(arguments[1], arguments + 1, environ);
        return 1;
    }
    EXPECT(syscall(SYS_execveat, -1, "/bin/true", arguments, environ, 0) == -1 && errno == ENOSYS);
    puts("unknown");
    return 0;
}
