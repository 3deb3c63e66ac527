// As in deadlock.c, in threads that are joined before further ones begin.
// found: predicted-deadlock
#include "../races/twin.h"

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static int phase;

static void both(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void work(long number) {
    usleep(number * 100000);
    // In the twin without deadlock the two orders are in different phases.
    int turn = phase;
    IF_RACY(turn = phase == 0 ? number : 0);
    if (turn == 0)
        both(&left, &right);
    else
        both(&right, &left);
}

int main(void) {
    run_threads();
    phase = 1;
    run_threads();
    return 0;
}
