// Threads write, and fall asleep: in a pause, in a read, and in a wait for a word. The process
// has those threads and no others meanwhile, and no child.
// flags: -O1 -pthread
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define WRITES 20000

static volatile long written[3][WRITES];
static int pipes[2];
static int word;
static atomic_int asleep;

static void write_all(int thread) {
    for (long i = 0; i < WRITES; i++)
        written[thread][i] = i;
    atomic_fetch_add(&asleep, 1);
}

static void *reads(void *unused) {
    char byte;
    write_all(1);
    EXPECT(read(pipes[0], &byte, 1) == 1);
    return unused;
}

static void *waits(void *unused) {
    write_all(2);
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
    return unused;
}

static int tasks(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    EXPECT(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

int main(int count, char **arguments) {
    // Seconds to sleep; whether a byte of input is waited for before anything else.
    unsigned seconds = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
    char byte;
    pthread_t threads[2];
    if (count > 2)
        EXPECT(read(STDIN_FILENO, &byte, 1) == 1);
    EXPECT(pipe(pipes) == 0);
    EXPECT(pthread_create(&threads[0], NULL, reads, NULL) == 0);
    EXPECT(pthread_create(&threads[1], NULL, waits, NULL) == 0);
    write_all(0);
    while (asleep != 3)
        usleep(1000);
    EXPECT(tasks() == 3);
    printf("asleep\n");
    fflush(stdout);
    sleep(seconds);
    EXPECT(tasks() == 3);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    EXPECT(write(pipes[1], "x", 1) == 1);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    for (int thread = 0; thread < 3; thread++)
        for (long i = 0; i < WRITES; i++)
            EXPECT(written[thread][i] == i);
    printf("awake\n");
    return 0;
}
