// A filter kills a thread or the process: one thread of several ends alone and is joined; the
// last one takes the process with it.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>

#include "filters.h"

static void forbid(unsigned result) {
    FILTER(rules, LOAD(nr), IF(SYS_getppid, result), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&rules, 0) == 0);
}

static void *asks(void *nothing) {
    getppid();
    _exit(1);
    return nothing;
}

static void *waits(void *nothing) {
    usleep(50000);
    return nothing;
}

static void one_of_two(void) {
    forbid(SECCOMP_RET_KILL_THREAD);
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, asks, NULL);
        pthread_join(thread, NULL);
    }
    _exit(5);
}

static void the_only_one(void) {
    forbid(SECCOMP_RET_KILL_THREAD);
    getppid();
}

static pthread_t first;

static void *asks_when_alone(void *nothing) {
    pthread_join(first, NULL);
    usleep(20000);
    getppid();
    return nothing;
}

static void the_last(void) {
    pthread_t thread;
    forbid(SECCOMP_RET_KILL_THREAD);
    first = pthread_self();
    pthread_create(&thread, NULL, asks_when_alone, NULL);
    getppid();
}

static void *ends_the_process(void *nothing) {
    usleep(50000);
    _exit(9);
    return nothing;
}

static void the_first_of_many(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, ends_the_process, NULL);
    forbid(SECCOMP_RET_KILL_THREAD);
    getppid();
}

static void the_process(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    forbid(SECCOMP_RET_KILL_PROCESS);
    pthread_create(&thread, NULL, asks, NULL);
    pthread_join(thread, NULL);
    _exit(1);
}

static void by_an_unknown_result(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    forbid(0x00010000);
    getppid();
}

// Neither a handler nor a mask helps.
static void handle(int signal) { _exit(signal); }
static void in_spite_of_a_handler(void) {
    signal(SIGSYS, handle);
    forbid(SECCOMP_RET_KILL_PROCESS);
    getppid();
}

int main(void) {
    EXPECT(EXITS_WITH(ending_of(one_of_two), 5));
    EXPECT(ENDS_BY(ending_of(the_only_one), SIGSYS));
    EXPECT(ENDS_BY(ending_of(the_last), SIGSYS));
    EXPECT(EXITS_WITH(ending_of(the_first_of_many), 9));
    EXPECT(ENDS_BY(ending_of(the_process), SIGSYS));
    EXPECT(ENDS_BY(ending_of(by_an_unknown_result), SIGSYS));
    EXPECT(ENDS_BY(ending_of(in_spite_of_a_handler), SIGSYS));
    puts("end");
}
