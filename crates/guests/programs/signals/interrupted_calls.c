// System calls that a signal interrupts: restarted where asked for, EINTR where not, and
// those that are never restarted.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "expect.h"

static int ends[2];
static pthread_t reader;
static atomic_int handled;

static void handler(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

static void *disturb(void *restarts) {
    usleep(30000);
    pthread_kill(reader, SIGUSR1);
    if (restarts) {
        usleep(30000);
        EXPECT(write(ends[1], "x", 1) == 1);
    }
    return NULL;
}

static void install(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
}

int main(void) {
    pthread_t thread;
    char byte;
    reader = pthread_self();
    EXPECT(pipe(ends) == 0);

    install(SA_RESTART);
    pthread_create(&thread, NULL, disturb, (void *)1);
    EXPECT(read(ends[0], &byte, 1) == 1 && byte == 'x');
    pthread_join(thread, NULL);

    install(0);
    pthread_create(&thread, NULL, disturb, NULL);
    EXPECT(read(ends[0], &byte, 1) == -1 && errno == EINTR);
    pthread_join(thread, NULL);

    install(SA_RESTART);
    pthread_create(&thread, NULL, disturb, NULL);
    struct pollfd nothing = {.fd = ends[0], .events = POLLIN};
    EXPECT(poll(&nothing, 1, -1) == -1 && errno == EINTR);
    pthread_join(thread, NULL);

    pthread_create(&thread, NULL, disturb, NULL);
    struct timespec wanted = {10, 0}, left = {0, 0};
    EXPECT(nanosleep(&wanted, &left) == -1 && errno == EINTR && left.tv_sec >= 5);
    pthread_join(thread, NULL);
    printf("%d\n", atomic_load(&handled));
    return 0;
}
