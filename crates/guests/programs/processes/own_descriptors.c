// Descriptors as daemons treat them: everything closed, one by one and by range, low
// limits, numbers taken by dup2; what was open before stays usable where it was kept.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

int main(void) {
    int kept = dup(1);
    EXPECT(kept > 2);
    for (int number = 3; number < 1024; number++)
        if (number != kept)
            close(number);
    EXPECT(close_range(kept + 1, ~0U, 0) == 0);
    EXPECT(open("/dev/null", O_RDONLY) >= 3);

    // A limit below every number that is not in use, and a child that lives with it.
    struct rlimit limit = {16, 16};
    EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int last = -1, next;
    while ((next = dup(1)) >= 0)
        last = next;
    EXPECT(errno == EMFILE && last == 15);
    EXPECT(dup2(1, 15) == 15 && dup2(1, 16) == -1 && errno == EBADF);
    EXPECT(close_range(5, 15, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        EXPECT(write(kept, "child\n", 6) == 6);
        execl("/bin/sh", "sh", "-c", "echo shell", (char *)NULL);
        _exit(99);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);

    // A daemon: two forks, a new session, the root directory, standard files closed.
    int pipes[2];
    EXPECT(pipe(pipes) == 0);
    child = fork();
    if (child == 0) {
        if (setsid() < 0 || fork() != 0)
            _exit(0);
        umask(0);
        if (chdir("/") != 0)
            _exit(1);
        close(0);
        close(1);
        close(2);
        EXPECT(open("/dev/null", O_RDWR) == 0 && dup(0) == 1 && dup(0) == 2);
        EXPECT(write(pipes[1], getppid() == child ? "n" : "y", 1) == 1);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    close(pipes[1]);
    char answer = 0;
    EXPECT(read(pipes[0], &answer, 1) == 1 && answer == 'y');
    EXPECT(write(kept, "kept\n", 5) == 5);
    return 0;
}
