// Replaces itself by itself: arguments, environment and descriptors arrive, those marked
// close-on-exec do not; signal handlers are reset and ignored signals stay ignored.
// flags: -O2 -D_GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

static void handler(int signal) { (void)signal; }

int main(int count, char **arguments) {
    if (count == 1) {
        int kept = dup(1), closed = fcntl(1, F_DUPFD_CLOEXEC, 50);
        char kept_text[12], closed_text[12];
        snprintf(kept_text, sizeof kept_text, "%d", kept);
        snprintf(closed_text, sizeof closed_text, "%d", closed);
        signal(SIGUSR1, handler);
        signal(SIGUSR2, SIG_IGN);
        char *next[] = {"another name", "second", kept_text, closed_text, "", NULL};
        char *environment[] = {"ONLY=this", NULL};
        execve("/proc/self/exe", next, environment);
        return 1;
    }
    EXPECT(count == 5 && strcmp(arguments[0], "another name") == 0 && arguments[4][0] == 0);
    EXPECT(strcmp(getenv("ONLY"), "this") == 0 && environ[1] == NULL);
    EXPECT(fcntl(atoi(arguments[2]), F_GETFD) == 0 && fcntl(atoi(arguments[3]), F_GETFD) == -1);
    struct sigaction action;
    EXPECT(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    EXPECT(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    printf("%s, %s\n", arguments[0], arguments[1]);
    return 0;
}
