// What is written before a thread is created is the thread's to read; what is written behind is not.
#include "twin.h"
long value, copy;
static void *read_value(void *unused) {
    (void)unused;
    copy = value; // race: value
    return NULL;
}
static void work(long number) {
    if (number == 0) {
        pthread_t thread;
        UNLESS_RACY(value = 42;)
        pthread_create(&thread, NULL, read_value, NULL);
        IF_RACY(value = 42;) // race: value
        KEEP;
        pthread_join(thread, NULL);
    }
}
int main(void) {
    run_threads();
    return value != 42;
}
