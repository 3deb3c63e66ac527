// Two locks lead from the first thread by way of the second to the third.
#define THREADS 3
#include "../races/twin.h"

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static volatile int value;
static int in_one, in_other;

static void work(long number) {
    usleep(number * 100000);
    if (number == 0) {
        value = 1; // race: value
        pthread_mutex_lock(&one);
        UNLESS_RACY(in_one = 1);
        pthread_mutex_unlock(&one);
    } else if (number == 1) {
        pthread_mutex_lock(&one);
        int known = in_one;
        pthread_mutex_unlock(&one);
        pthread_mutex_lock(&other);
        in_other = known;
        pthread_mutex_unlock(&other);
    } else {
        pthread_mutex_lock(&other);
        UNLESS_RACY(int known = in_other);
        pthread_mutex_unlock(&other);
        UNLESS_RACY(if (known))
            value = 2; // race: value
    }
}

int main(void) {
    run_threads();
    return value == 3;
}
