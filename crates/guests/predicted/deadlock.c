// Two threads take two locks, each in its own order, one behind the other in time. In the twin without
// deadlock the second does so only because the first has.
// found: predicted-deadlock
#include "../races/twin.h"

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static int done;

static void work(long number) {
    if (number == 0) {
        pthread_mutex_lock(&left);
        pthread_mutex_lock(&right);
        done = 1;
        pthread_mutex_unlock(&right);
        pthread_mutex_unlock(&left);
    } else {
        usleep(100000);
#ifndef RACY
        pthread_mutex_lock(&left);
        int is_done = done;
        pthread_mutex_unlock(&left);
        if (!is_done)
            return;
#endif
        pthread_mutex_lock(&right);
        pthread_mutex_lock(&left);
        pthread_mutex_unlock(&left);
        pthread_mutex_unlock(&right);
    }
}

int main(void) {
    run_threads();
    return 0;
}
