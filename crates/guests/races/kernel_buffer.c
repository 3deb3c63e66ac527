// The kernel fills a buffer that another thread reads.
#include "twin.h"
static int ends[2];
UNLESS_RACY(static) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
char buffer[8];
static void work(long number) {
    UNLESS_RACY(pthread_mutex_lock(&mutex);)
    if (number == 0) {
        if (read(ends[0], buffer, sizeof buffer) < 0)
            abort();
    } else {
        volatile char seen = buffer[3]; // race: buffer
        KEEP;
        (void)seen;
    }
    UNLESS_RACY(pthread_mutex_unlock(&mutex);)
}
int main(void) {
    if (pipe(ends) || write(ends[1], "12345678", 8) != 8)
        return 1;
    run_threads();
    return 0;
}
