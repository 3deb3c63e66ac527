// Two threads hand two locks to each other, with barriers between: one lock once, the other three times
// to and fro.
#include <pthread.h>

static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER, both = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;

static void wait(void) {
    pthread_barrier_wait(&turn);
}

static void *one(void *unused) {
    pthread_mutex_lock(&once); // once: first
    pthread_mutex_unlock(&once);
    for (int round = 0; round < 2; round++) {
        pthread_mutex_lock(&both); // both: one
        pthread_mutex_unlock(&both);
        wait();
        wait();
    }
    return unused;
}

static void *other(void *unused) {
    for (int round = 0; round < 2; round++) {
        wait();
        pthread_mutex_lock(&both); // both: other
        pthread_mutex_unlock(&both);
        wait();
    }
    pthread_mutex_lock(&once); // once: second
    pthread_mutex_unlock(&once);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&turn, NULL, 2);
    pthread_create(&threads[0], NULL, one, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
