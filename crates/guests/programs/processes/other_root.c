// A root directory of its own, namespaces of its own, and no descriptor that it did not ask
// for: as containers and build tools start programs. What needs privileges is left out where
// they are missing.
// flags: -O1 -static -D_GNU_SOURCE
// trace: no
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "expect.h"

static int in_child(void (*body)(void)) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        body();
        _exit(7);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void in_other_root(void) {
    char name[] = "root-XXXXXX";
    EXPECT(mkdtemp(name));
    if (chroot(name) != 0) {
        EXPECT(errno == EPERM && rmdir(name) == 0);
        _exit(7);
    }
    EXPECT(chdir("/") == 0 && open("/proc/self/maps", O_RDONLY) == -1 && errno == ENOENT);
    EXPECT(mkdir("/new", 0700) == 0 && rmdir("/new") == 0);
    EXPECT(execl("/bin/sh", "sh", (char *)NULL) == -1 && errno == ENOENT);
    // New code, new processes.
    pid_t child = fork();
    if (child == 0)
        _exit(8);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 8);
    // Back to where the directory can be removed: the old working directory is not known.
}

static void in_other_namespaces(void) {
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID) != 0) {
        EXPECT(errno == EPERM || errno == ENOSYS);
        _exit(7);
    }
    EXPECT(sethostname("elsewhere", 9) == 0);
    char host[20] = "";
    EXPECT(gethostname(host, sizeof host) == 0 && host[0] == 'e');
    // The first process of the namespace.
    pid_t child = fork();
    EXPECT(child > 0 || getpid() == 1);
    if (child == 0)
        _exit(9);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
}

static void without_files(void) {
    EXPECT(close_range(3, ~0U, 0) == 0);
    for (int number = 3; number < 65536; number++)
        close(number);
    EXPECT(open("/dev/null", O_RDWR) == 3);
    EXPECT(unshare(CLONE_FILES) == 0);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    EXPECT(in_child(without_files) == 7);
    puts("without files");
    EXPECT(in_child(in_other_namespaces) == 7);
    puts("in other namespaces");
    EXPECT(in_child(in_other_root) == 7);
    puts("in another root");
    return 0;
}
