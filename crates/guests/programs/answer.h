// The smallest function there is: code that gives a number.
#ifndef UNSPOOL_GUESTS_ANSWER_H
#define UNSPOOL_GUESTS_ANSWER_H

#include <string.h>

// mov $number, %eax; ret
static inline void write_answer(unsigned char *place, int number) {
    unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + 1, &number, 4);
    memcpy(place, code, sizeof code);
}

static inline int call(unsigned char *place) {
    int (*volatile function)(void) = (int (*)(void))place;
    return function();
}

#endif
