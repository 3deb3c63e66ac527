// One thread sleeps (or turns in its registers alone) while another works, which waits
// for a reader of what it does. The worker ends the process once a file called `seen` appears, or says that none did.
// flags: -O2 -pthread
// compare: status
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "expect.h"

static volatile long cells[4096];

static void *sleep_long(void *unused) {
    sleep(60);
    return unused;
}

static void *spin(void *unused) {
    for (unsigned long turn = 0;; turn++)
        __asm__ volatile("" : : "r"(turn));
    return unused;
}

int main(int count, char **arguments) {
    // Rounds over the cells, then seconds of patience.
    long rounds = count > 1 ? atol(arguments[1]) : 10;
    double patience = count > 2 ? atof(arguments[2]) : 0;
    pthread_t sleeper;
    EXPECT(pthread_create(&sleeper, NULL, count > 3 ? spin : sleep_long, NULL) == 0);
    for (long round = 0; round < rounds; round++)
        for (int i = 0; i < 4096; i++)
            cells[i] += round;
    struct timespec pause = {0, 10 * 1000 * 1000};
    for (int i = 0; i < patience * 100; i++) {
        if (access("seen", F_OK) == 0) {
            puts("seen");
            return 0;
        }
        nanosleep(&pause, NULL);
    }
    puts("not seen");
    return 0;
}
