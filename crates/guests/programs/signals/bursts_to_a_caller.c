// Bursts of real-time signals to a thread that changes its mask, maps memory, asks, waits, and
// returns from handlers: as many are handled as are sent, and none while it is blocked.
// flags: -O1 -pthread -D_GNU_SOURCE
// variants: static
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"

enum { BURSTS = 400, KINDS = 3 };

static atomic_long handled, early;
static atomic_int done;
static volatile int blocked;
static pthread_t caller;

static void handler(int signal) {
    if (blocked && signal == SIGRTMIN + 1)
        atomic_fetch_add(&early, 1);
    atomic_fetch_add(&handled, 1);
}

static void *send(void *nothing) {
    (void)nothing;
    unsigned random = 1;
    for (long burst = 1; burst <= BURSTS; burst++) {
        for (int kind = 1; kind <= KINDS; kind++) {
            EXPECT(pthread_sigqueue(caller, SIGRTMIN + kind, (union sigval){0}) == 0);
            random = random * 1103515245 + 12345;
            for (volatile unsigned wait = 0; wait < (random >> 16) % 400; wait++)
                ;
        }
        // However busy the machine is, they come in the end.
        for (long rounds = 0; atomic_load(&handled) < burst * KINDS; rounds++) {
            EXPECT(rounds < 30000);
            if (rounds > 100)
                nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
    }
    atomic_store(&done, 1);
    return NULL;
}

int main(void) {
    caller = pthread_self();
    for (int kind = 1; kind <= KINDS; kind++)
        sigaction(SIGRTMIN + kind, &(struct sigaction){.sa_handler = handler}, NULL);
    sigset_t first, none;
    sigemptyset(&none);
    sigemptyset(&first);
    sigaddset(&first, SIGRTMIN + 1);
    pthread_t sender;
    pthread_create(&sender, NULL, send, NULL);
    for (unsigned round = 0; !atomic_load(&done); round++) {
        sigprocmask(SIG_BLOCK, &first, NULL);
        blocked = 1;
        if (round % 3 == 0)
            syscall(SYS_getppid);
        blocked = 0;
        if (round % 7 == 0)
            ppoll(NULL, 0, &(struct timespec){0, 10000}, &none);
        sigprocmask(SIG_UNBLOCK, &first, NULL);
        if (round % 5 == 0) {
            void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(page, 4096);
        }
    }
    pthread_join(sender, NULL);
    printf("handled %ld of %d, early %ld\n", (long)handled, BURSTS * KINDS, (long)early);
    return 0;
}
