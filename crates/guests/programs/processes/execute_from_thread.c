// A thread that is not the first replaces the process while others run: they vanish, and
// the process keeps its id.
// flags: -O2 -pthread
#include <pthread.h>
#include <stdlib.h>

#include "expect.h"

static void *spin(void *unused) {
    for (volatile long i = 0;; i++) {
    }
    return unused;
}

static void *replace(void *unused) {
    char id[20];
    snprintf(id, sizeof id, "%d", getpid());
    execl("/proc/self/exe", "again", id, (char *)NULL);
    EXPECT(!"execl came back");
    return unused;
}

int main(int count, char **arguments) {
    if (count > 1) {
        EXPECT(atoi(arguments[1]) == getpid());
        puts("the same process");
        return 0;
    }
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, i < 2 ? spin : replace, NULL) == 0);
    pthread_join(threads[0], NULL);
    return 1;
}
