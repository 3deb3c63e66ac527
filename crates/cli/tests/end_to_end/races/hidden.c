// Each thread counts outside the lock: the first before it takes it, the second behind. The lock
// orders the two as long as the first thread comes first, which it does nearly always.
#include <pthread.h>
#include <unistd.h>

long counter, total;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void add(void) {
    pthread_mutex_lock(&mutex);
    total++;
    pthread_mutex_unlock(&mutex);
}

static void *first(void *unused) {
    counter++;
    add();
    return unused;
}

static void *second(void *unused) {
    usleep(1000);
    add();
    counter++;
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return total != 2;
}
