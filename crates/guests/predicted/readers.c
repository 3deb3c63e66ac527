// The same with a lock that one thread takes to read: nobody learns anything by it.
#include "../races/twin.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static volatile int value;
static int known;

static void work(long number) {
    if (number == 0) {
        value = 1; // race: value
        UNLESS_RACY(pthread_rwlock_wrlock(&lock));
        UNLESS_RACY(known = 1);
        IF_RACY(pthread_rwlock_rdlock(&lock));
        pthread_rwlock_unlock(&lock);
    } else {
        usleep(100000);
        pthread_rwlock_wrlock(&lock);
        int is_known = known;
        pthread_rwlock_unlock(&lock);
        UNLESS_RACY(if (is_known))
            value = 1 + is_known; // race: value
    }
}

int main(void) {
    run_threads();
    return value == 3;
}
