// The child of vfork borrows the parent's memory until it executes or exits, and the parent
// waits so long; a failed exec is reported through that memory.
// flags: -O2
#include <errno.h>
#include <sys/wait.h>

#include "expect.h"

int main(void) {
    static volatile int told;
    int status;
    pid_t child = vfork();
    if (child == 0) {
        told = 5;
        _exit(6);
    }
    EXPECT(told == 5 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);

    child = vfork();
    if (child == 0) {
        execl("/no/such/program", "x", (char *)NULL);
        told = errno;
        _exit(127);
    }
    EXPECT(told == ENOENT && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 127);

    fflush(stdout);
    child = vfork();
    if (child == 0) {
        execl("/bin/echo", "echo", "from the child", (char *)NULL);
        _exit(1);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    puts("from the parent");
    return 0;
}
