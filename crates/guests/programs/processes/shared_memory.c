// Parent and child talk through a shared mapping, with process-shared locks and a futex.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "expect.h"

struct shared {
    pthread_mutex_t mutex;
    sem_t ready;
    long sum;
};

static void add(struct shared *shared) {
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&shared->mutex);
        shared->sum++;
        pthread_mutex_unlock(&shared->mutex);
    }
}

int main(void) {
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->mutex, &attributes);
    sem_init(&shared->ready, 1, 0);
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            sem_wait(&shared->ready);
            add(shared);
            _exit(0);
        }
    }
    sem_post(&shared->ready);
    sem_post(&shared->ready);
    add(shared);
    while (wait(NULL) > 0) {
    }
    printf("%ld\n", shared->sum);
    return 0;
}
