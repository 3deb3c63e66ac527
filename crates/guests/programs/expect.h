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

#endif
