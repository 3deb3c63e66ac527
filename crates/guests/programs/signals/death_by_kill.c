// Kills itself with a signal that cannot be caught.
// ending: signal 9
#include <signal.h>

#include "expect.h"

int main(void) {
    puts("before");
    fflush(stdout);
    kill(getpid(), SIGKILL);
    pause();
    return 0;
}
