// A pair of sockets carries order; the racy twin writes behind what it sends.
#include "twin.h"
#include <sys/socket.h>
static int ends[2];
long value;
static void work(long number) {
    char byte = 0;
    if (number == 0) {
        UNLESS_RACY(value = 1;)
        if (send(ends[0], &byte, 1, 0) != 1)
            abort();
        IF_RACY(value = 1;) // race: value
        KEEP;
    } else {
        if (recv(ends[1], &byte, 1, 0) != 1)
            abort();
        if (value == 7) // race: value
            abort();
    }
}
int main(void) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        abort();
    run_threads();
    return 0;
}
