// Programs that are started by a descriptor: of a file, of one that has no name, of a script, and
// relative to a directory; with an environment of their own.
// flags: -O1 -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

static char *environment[] = {"MARK=set", NULL};

static void wait_for(pid_t child, int wanted) {
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

static void by_file(void) {
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {"first", "41", NULL};
        fexecve(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), arguments, environment);
        _exit(90);
    }
    wait_for(child, 41);
}

static int nameless_copy(void) {
    int own = open("/proc/self/exe", O_RDONLY), copy = memfd_create("nameless", MFD_CLOEXEC);
    struct stat facts;
    EXPECT(own >= 0 && copy >= 0 && fstat(own, &facts) == 0);
    for (off_t done = 0; done < facts.st_size;)
        EXPECT(sendfile(copy, own, &done, facts.st_size - done) > 0);
    close(own);
    return copy;
}

static void by_memory(void) {
    int copy = nameless_copy();
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {"second", "42", NULL};
        syscall(SYS_execveat, copy, "", arguments, environment, AT_EMPTY_PATH);
        _exit(90);
    }
    wait_for(child, 42);
    close(copy);
}

static void by_script(void) {
    int script = open("script", O_WRONLY | O_CREAT | O_TRUNC, 0700);
    const char text[] = "#!/bin/sh\ntest \"$MARK\" = set && exit $1\n";
    EXPECT(script >= 0 && write(script, text, sizeof text - 1) == sizeof text - 1);
    close(script);
    char *arguments[] = {"third", "43", NULL};
    pid_t child = fork();
    if (child == 0) {
        fexecve(open("script", O_RDONLY), arguments, environment);
        _exit(90);
    }
    wait_for(child, 43);
    // Closed before the interpreter could read it.
    child = fork();
    if (child == 0) {
        fexecve(open("script", O_RDONLY | O_CLOEXEC), arguments, environment);
        _exit(errno == ENOENT ? 44 : 90);
    }
    wait_for(child, 44);
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    child = fork();
    if (child == 0) {
        syscall(SYS_execveat, folder, "script", arguments, environment, 0);
        _exit(90);
    }
    wait_for(child, 43);
    EXPECT(symlink("script", "link") == 0);
    child = fork();
    if (child == 0) {
        syscall(SYS_execveat, folder, "link", arguments, environment, AT_SYMLINK_NOFOLLOW);
        _exit(errno == ELOOP ? 45 : 90);
    }
    wait_for(child, 45);
    unlink("script");
    unlink("link");
}

int main(int count, char **arguments) {
    if (count > 1)
        return getenv("MARK") && strcmp(getenv("MARK"), "set") == 0 ? atoi(arguments[1]) : 91;
    by_file();
    by_memory();
    by_script();
    puts("started");
    return 0;
}
