// Thread ids, names, and the list of threads in /proc are what the program made.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <string.h>

#include "expect.h"

enum { THREADS = 4 };

static pthread_barrier_t started, end;

static void *run(void *argument) {
    char name[16], wanted[16];
    snprintf(wanted, sizeof wanted, "worker-%zu", (size_t)argument);
    pthread_setname_np(pthread_self(), wanted);
    EXPECT(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, wanted) == 0);
    EXPECT(gettid() != getpid());
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&end);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&started, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    pthread_barrier_wait(&started);
    int tasks = 0;
    DIR *folder = opendir("/proc/self/task");
    EXPECT(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));)
        tasks += entry->d_name[0] != '.';
    closedir(folder);
    EXPECT(gettid() == getpid());
    pthread_barrier_wait(&end);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    printf("%d threads\n", tasks);
    return 0;
}
