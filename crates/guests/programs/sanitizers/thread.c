// Built with the thread sanitizer: it finds a race, and ends with its own status.
// flags: -O1 -fsanitize=thread
// needs: file /usr/lib/x86_64-linux-gnu/libtsan.so.2
// compare: status
// ending: exit 66
// trace: no
#include <pthread.h>

#include "expect.h"

static int raced, guarded;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *run(void *argument) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        guarded++;
        pthread_mutex_unlock(&mutex);
    }
    raced++;
    return argument;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, run, NULL) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(guarded == 2000);
    return 0;
}
