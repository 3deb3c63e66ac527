// Threads that hold different locks, or none.
#include "../races/twin.h"
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
long counter, total;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        if (number == 0) {
            pthread_rwlock_rdlock(&gate);
            pthread_mutex_lock(&left);
            counter++; // race: counter, holding read-write lock gate (to read) & mutex left
            KEEP;
            pthread_mutex_unlock(&left);
            UNLESS_RACY(pthread_mutex_lock(&right);)
            total++; // race: total, holding read-write lock gate (to read), lacking mutex right
            KEEP;
            UNLESS_RACY(pthread_mutex_unlock(&right);)
            pthread_rwlock_unlock(&gate);
        } else {
            pthread_mutex_lock(&right);
            total++; // race: total, holding mutex right
            KEEP;
            pthread_mutex_unlock(&right);
            UNLESS_RACY(pthread_mutex_lock(&left);)
            counter++; // race: counter, holding nothing, lacking mutex left
            KEEP;
            UNLESS_RACY(pthread_mutex_unlock(&left);)
        }
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
