// Threads cancelled at a cancellation point, while blocked, and asynchronously in a loop;
// their clean-up handlers run.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdatomic.h>

#include "expect.h"

static atomic_int cleaned, started;

static void clean_up(void *amount) {
    atomic_fetch_add(&cleaned, (int)(size_t)amount);
}

static void *poll_for_it(void *unused) {
    pthread_cleanup_push(clean_up, (void *)1);
    atomic_fetch_add(&started, 1);
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
    return unused;
}

static void *block(void *unused) {
    pthread_cleanup_push(clean_up, (void *)10);
    atomic_fetch_add(&started, 1);
    pause();
    pthread_cleanup_pop(0);
    return unused;
}

static void *compute(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(clean_up, (void *)100);
    atomic_fetch_add(&started, 1);
    for (volatile long i = 0;; i++) {
    }
    pthread_cleanup_pop(0);
    return unused;
}

static void *refuse(void *unused) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    atomic_fetch_add(&started, 1);
    usleep(50000);
    (void)unused;
    return (void *)5;
}

int main(void) {
    void *(*bodies[])(void *) = {poll_for_it, block, compute, refuse};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    while (atomic_load(&started) < 4)
        usleep(1000);
    for (int i = 0; i < 4; i++) {
        void *result;
        EXPECT(pthread_cancel(threads[i]) == 0);
        EXPECT(pthread_join(threads[i], &result) == 0);
        EXPECT(result == (i < 3 ? PTHREAD_CANCELED : (void *)5));
    }
    printf("%d\n", atomic_load(&cleaned));
    return 0;
}
