// A thread is created below calls of every kind, and races with what creates it: `counter`. The argument says
// where: in recursion, in a function that the C library calls, in a handler of signals, or in a child of a process
// that has a thread more.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long counter;
static volatile long alone[1024];

static void *work(void *nothing) {
    for (int round = 0; round < 1000; round++)
        counter++;
    return nothing;
}

__attribute__((noinline)) static void touches(void) {
    for (int round = 0; round < 1000; round++)
        counter++;
}

__attribute__((noinline)) static void creates(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    touches();
    pthread_join(thread, NULL);
}

__attribute__((noinline)) static long recurses(int depth) {
    if (depth == 0)
        creates();
    else
        alone[depth] += recurses(depth - 1);
    return alone[depth];
}

static int compares(const void *left, const void *right) {
    static int is_done;
    if (!is_done++)
        creates();
    return *(const int *)left - *(const int *)right;
}

static void handles(int signal) {
    (void)signal;
    creates();
}

static void *rests(void *nothing) {
    pause();
    return nothing;
}

static int forks(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, rests, NULL);
    pid_t child = fork();
    if (child == 0) {
        // Nobody else is there.
        for (int round = 0; round < 100000; round++)
            alone[0]++;
        recurses(5);
        return 0;
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

int main(int count, char **arguments) {
    const char *where = count > 1 ? arguments[1] : "recursion";
    for (int place = 0; place < 1024; place++)
        alone[place] = place;
    // What is told without accesses takes time, too.
    for (int round = 0; round < 200; round++)
        munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    if (!strcmp(where, "recursion")) {
        recurses(5);
    } else if (!strcmp(where, "callback")) {
        int numbers[] = {3, 1, 2};
        qsort(numbers, 3, sizeof *numbers, compares);
    } else if (!strcmp(where, "handler")) {
        signal(SIGUSR1, handles);
        raise(SIGUSR1);
    } else if (!strcmp(where, "child")) {
        return forks();
    }
    return 0;
}
