// exec that must fail says why, and the program goes on as it was.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "expect.h"

static int failure(const char *path) {
    char *arguments[] = {"x", NULL};
    errno = 0;
    EXPECT(execve(path, arguments, environ) == -1);
    return errno;
}

static void make(const char *path, const char *text, mode_t mode) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    EXPECT(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    fchmod(file, mode);
    close(file);
}

int main(void) {
    char folder[] = "/tmp/guest-exec-XXXXXX";
    EXPECT(mkdtemp(folder) && chdir(folder) == 0);
    make("plain", "no magic here\n", 0700);
    make("locked", "#!/bin/sh\n", 0600);
    make("orphan", "#!/no/such/interpreter\n", 0700);
    make("empty", "", 0700);
    EXPECT(failure("missing") == ENOENT);
    EXPECT(failure("plain") == ENOEXEC);
    EXPECT(failure("locked") == EACCES);
    EXPECT(failure("orphan") == ENOENT);
    EXPECT(failure("empty") == ENOEXEC);
    EXPECT(failure(".") == EACCES);
    EXPECT(failure("plain/below") == ENOTDIR);
    char *volatile nowhere = (char *)8;
    EXPECT(failure(nowhere) == EFAULT);
    EXPECT(unlink("plain") == 0 && unlink("locked") == 0 && unlink("orphan") == 0);
    EXPECT(unlink("empty") == 0 && rmdir(folder) == 0);
    puts("still here");
    return 0;
}
