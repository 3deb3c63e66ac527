// As many threads as the argument says divide 0.6 seconds of CPU time among them, and each spends 0.2
// seconds more on what the others do, too.
// flags: -O2 -pthread

#include <pthread.h>
#include <stdlib.h>

#include "profile/burn.h"

static volatile double kept;
static long threads = 1;

// What follows each call keeps it from being a tail call.
APART double divided(void) {
    return burn(0.6 / (double)threads) + 1;
}

APART double repeated(void) {
    return burn(0.2) + 2;
}

static void *work(void *unused) {
    kept = divided() + repeated();
    return unused;
}

int main(int count, char **arguments) {
    enum { MOST = 64 };
    pthread_t others[MOST];
    if (count > 1)
        threads = atol(arguments[1]);
    for (long i = 1; i < threads && i < MOST; i++)
        pthread_create(&others[i], 0, work, 0);
    work(0);
    for (long i = 1; i < threads && i < MOST; i++)
        pthread_join(others[i], 0);
    return 0;
}
