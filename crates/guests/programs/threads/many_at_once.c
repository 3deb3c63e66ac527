// 256 threads alive at once, then a thousand that come and go, detached and joined; the
// last one to leave ends the process, after main.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

static atomic_int alive, most, done, go;

static void *stay(void *argument) {
    int now = atomic_fetch_add(&alive, 1) + 1, known = atomic_load(&most);
    while (now > known && !atomic_compare_exchange_weak(&most, &known, now))
        ;
    while (!atomic_load(&go))
        usleep(10000);
    atomic_fetch_sub(&alive, 1);
    return argument;
}

static void *pass(void *argument) {
    atomic_fetch_add(&done, 1);
    return argument;
}

static void *leave_last(void *argument) {
    // Main has gone when it can be joined.
    EXPECT(pthread_join(*(pthread_t *)argument, NULL) == 0);
    printf("most %d, gone %d\n", atomic_load(&most), atomic_load(&done));
    fflush(stdout);
    return NULL;
}

int main(void) {
    pthread_t threads[256], last;
    for (int i = 0; i < 256; i++)
        EXPECT(pthread_create(&threads[i], NULL, stay, NULL) == 0);
    while (atomic_load(&most) < 256)
        usleep(10000);
    atomic_store(&go, 1);
    for (int i = 0; i < 256; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 1000; i++) {
        pthread_t one;
        EXPECT(pthread_create(&one, i % 2 ? &detached : NULL, pass, NULL) == 0);
        if (i % 2 == 0)
            EXPECT(pthread_join(one, NULL) == 0);
    }
    while (atomic_load(&done) < 1000)
        usleep(10000);
    static pthread_t self;
    self = pthread_self();
    EXPECT(pthread_create(&last, NULL, leave_last, &self) == 0);
    pthread_detach(last);
    pthread_exit(NULL);
}
