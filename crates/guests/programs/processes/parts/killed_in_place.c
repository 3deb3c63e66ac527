// Children in their parent's place (vfork) that change signals' dispositions and the memory's
// protection all the time, until another thread of the parent's kills them.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <sys/mman.h>

#include "killed_children.h"

static char *page;

static void change_process(void) {
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGUSR1, &action, NULL);
    mprotect(page, 4096, PROT_READ);
}

int main(void) {
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kill_children_that(change_process);
    return 0;
}
