// posix_spawn with file actions and attributes; its failures come back as error numbers.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "expect.h"

int main(void) {
    int ends[2], status;
    char text[100] = "";
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    EXPECT(pipe(ends) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawnattr_init(&attributes);
    sigset_t mask;
    sigemptyset(&mask);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    char *arguments[] = {"sh", "-c", "echo $GREETING; exit 4", NULL};
    char *environment[] = {"GREETING=hello from below", NULL};
    EXPECT(posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environment) == 0);
    close(ends[1]);
    EXPECT(read(ends[0], text, sizeof text - 1) > 0);
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
    printf("%s", text);

    EXPECT(posix_spawn(&child, "/no/such/program", NULL, NULL, arguments, environ) == ENOENT);
    EXPECT(posix_spawn(&child, "/tmp", NULL, NULL, arguments, environ) == EACCES);
    EXPECT(posix_spawnp(&child, "no-such-program-anywhere", NULL, NULL, arguments, environ) == ENOENT);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 5, "/no/such/file", O_RDONLY, 0);
    EXPECT(posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ) == ENOENT);
    EXPECT(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    return 0;
}
