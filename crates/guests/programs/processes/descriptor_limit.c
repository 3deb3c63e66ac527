// Few descriptors from the start of the program on: it finds those that it has natively, gets
// as many as it may, each by the lowest number, and is refused the next. What it starts finds
// the same.
// flags: -O1 -D_GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "expect.h"

// Those that a limit can be about.
static void list(int limit) {
    DIR *folder = opendir("/proc/self/fd");
    EXPECT(folder);
    int seen[16] = {0};
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) < limit)
            seen[atoi(entry->d_name)] = 1;
    closedir(folder);
    for (int number = 0; number < limit; number++)
        if (seen[number])
            printf(" %d", number);
    puts("");
}

static void use_up(void) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    EXPECT(limit.rlim_cur <= 16);
    printf("limit %ld of %ld; descriptors", (long)limit.rlim_cur, (long)limit.rlim_max);
    list((int)limit.rlim_cur);
    int number, got = 0, taken[64];
    while ((number = open("/dev/null", O_RDONLY)) >= 0) {
        EXPECT(got < 64);
        taken[got++] = number;
        printf("%d ", number);
    }
    printf("and then: %s\n", strerror(errno));
    int pair[2];
    EXPECT(pipe(pair) == -1 && errno == EMFILE);
    EXPECT(socket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EMFILE);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == -1 && errno == EMFILE);
    EXPECT(fcntl(0, F_DUPFD, 0) == -1 && errno == EMFILE);
    EXPECT(fcntl(0, F_DUPFD, (int)limit.rlim_cur) == -1 && errno == EINVAL);
    EXPECT(dup2(0, (int)limit.rlim_cur) == -1 && errno == EBADF);
    // Libraries, children and new code without a descriptor to spare.
    EXPECT(!dlopen("libm.so.6", RTLD_NOW));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        _exit(open("/dev/null", O_RDONLY) == -1 && errno == EMFILE ? 3 : 4);
    int ended;
    EXPECT(waitpid(child, &ended, 0) == child && WEXITSTATUS(ended) == 3);
    while (got > 0)
        close(taken[--got]);
}

static void start(const char *self, const char *left, struct rlimit limit) {
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        execl(self, self, left, (char *)NULL);
        printf("cannot start: %s\n", strerror(errno));
        fflush(stdout);
        _exit(5);
    }
    int ended;
    EXPECT(waitpid(child, &ended, 0) == child);
    printf("ended: %x\n", ended);
}

int main(int count, char **arguments) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (count > 1) {
        use_up();
        if (arguments[1][0] == '1')
            start(arguments[0], "0", limit);
        return 0;
    }
    limit.rlim_cur = 16;
    start(arguments[0], "1", limit);
    limit.rlim_cur = 7;
    start(arguments[0], "0", limit);
    return 0;
}
