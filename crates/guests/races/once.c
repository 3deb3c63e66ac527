// A value that is made once, by whoever comes first.
#include "twin.h"
UNLESS_RACY(static) pthread_once_t once = PTHREAD_ONCE_INIT;
static long answer = 42;
long *value;
static void make(void) {
    value = &answer; // race: value
}
static void work(long number) {
    (void)number;
    UNLESS_RACY(pthread_once(&once, make);)
    IF_RACY(if (!value) make();) // race: value
    KEEP;
    long *mine = value; // race: value
    for (int round = 0; round < ROUNDS; round++)
        if (*mine != 42) // race: value
            abort();
}
int main(void) {
    run_threads();
    return 0;
}
