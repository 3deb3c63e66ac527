// What a thread has written is read when it was joined; or, racing, before.
#include "twin.h"
long value;
static void *write_value(void *unused) {
    (void)unused;
    value = 42; // race: value
    return NULL;
}
static void work(long number) {
    if (number == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, write_value, NULL);
        UNLESS_RACY(pthread_join(thread, NULL);)
        volatile long seen = value; // race: value
        KEEP;
        IF_RACY(pthread_join(thread, NULL);)
        (void)seen;
    }
}
int main(void) {
    run_threads();
    return value != 42;
}
