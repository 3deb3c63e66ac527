// How a guest checks itself: a broken expectation is named on standard error and ends the
// program with status 99.
#ifndef UNSPOOL_GUESTS_EXPECT_H
#define UNSPOOL_GUESTS_EXPECT_H

#include <stdio.h>
#include <unistd.h>

#define EXPECT(condition)                                                             \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);  \
            fflush(NULL);                                                             \
            _exit(99);                                                                \
        }                                                                             \
    } while (0)

// The variant `threaded` has had a second thread before `main` begins, so that whoever
// observes it must reckon with more to come.
#ifdef GUEST_HAS_A_SECOND_THREAD
#include <pthread.h>

static void *end_at_once(void *nothing) { return nothing; }

__attribute__((constructor)) static void start_a_second_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
        pthread_join(thread, NULL);
}
#endif

#endif
