// A program that lets no file grow: its own writes are refused, each with a signal, and nobody
// else's are, whatever its threads and children do meanwhile.
// flags: -O1 -pthread -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "expect.h"

static atomic_int exceeded;

static void too_large(int signal) {
    (void)signal;
    atomic_fetch_add(&exceeded, 1);
}

static unsigned access_memory(unsigned seed) {
    static _Thread_local volatile unsigned words[1 << 12];
    unsigned random = seed;
    for (int round = 0; round < 600000; round++) {
        random = random * 1103515245 + 12345;
        words[random >> 20] += random;
    }
    return words[seed % (1 << 12)];
}

static void *thread_body(void *seed) {
    access_memory((unsigned)(unsigned long)seed);
    return NULL;
}

static void write_too_much(int file, int expected) {
    EXPECT(write(file, "x", 1) == -1 && errno == EFBIG);
    EXPECT(atomic_load(&exceeded) == expected);
}

int main(void) {
    signal(SIGXFSZ, too_large);
    int file = open("limited", O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT(file >= 0);
    struct rlimit limit = {0, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int round = 1; round <= 3; round++) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, thread_body, (void *)(unsigned long)round) == 0);
        access_memory((unsigned)round + 7);
        write_too_much(file, 2 * round - 1);
        EXPECT(pthread_join(thread, NULL) == 0);
        write_too_much(file, 2 * round);
    }
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        access_memory(1);
        write_too_much(file, 7);
        _exit(3);
    }
    int ended;
    EXPECT(wait(&ended) == child && WEXITSTATUS(ended) == 3 && wait(&ended) == -1);
    EXPECT(getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == 0);
    EXPECT(limit.rlim_max == RLIM_INFINITY && atomic_load(&exceeded) == 6);
    close(file);
    unlink("limited");
    puts("limited");
    return 0;
}
