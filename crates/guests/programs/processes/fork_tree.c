// A tree of forks, each with its own memory, and statuses that come back up.
// flags: -O2
#include <stdlib.h>
#include <sys/wait.h>

#include "expect.h"

static int grow(int depth) {
    int sum = 1;
    for (int i = 0; i < 2 && depth > 0; i++) {
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0)
            exit(grow(depth - 1));
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
        sum += WEXITSTATUS(status);
    }
    return sum;
}

int main(void) {
    printf("%d processes\n", grow(4));
    return 0;
}
