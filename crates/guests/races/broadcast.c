// Three threads wait for a fourth one's values.
#define THREADS 4
#include "twin.h"
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int ready;
long values[4];
static void work(long number) {
    if (number == 0) {
        for (int index = 0; index < 4; index++)
            values[index] = index;
        pthread_mutex_lock(&mutex);
        ready = 1;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
        return;
    }
    pthread_mutex_lock(&mutex);
    while (!ready)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    int place = UNLESS_RACY(number) IF_RACY(2);
    values[place] += number; // race: values
    KEEP;
}
int main(void) {
    run_threads();
    return values[1] == 99;
}
