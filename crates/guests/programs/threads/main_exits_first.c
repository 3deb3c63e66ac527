// The first thread ends with pthread_exit; the process goes on until the last thread ends.
// flags: -O2 -pthread
#include <pthread.h>

#include "expect.h"

static void *carry_on(void *first) {
    EXPECT(pthread_join(*(pthread_t *)first, NULL) == 0);
    puts("the first thread has gone");
    return NULL;
}

int main(void) {
    static pthread_t first;
    pthread_t other;
    first = pthread_self();
    EXPECT(pthread_create(&other, NULL, carry_on, &first) == 0);
    pthread_detach(other);
    pthread_exit(NULL);
}
