// In strict mode a thread reads, writes, returns from handlers and ends; any other call kills it
// alone, as if by SIGKILL.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "filters.h"

static volatile sig_atomic_t handled;
static int pipes[2];

static void handle(int signal) {
    handled = signal;
    write(pipes[1], "h", 1);
}

// Code that has not run yet, calls through pointers, and reading and writing.
static void work_on(void) {
    char text[32] = "", byte = 0;
    int (*volatile compare)(const char *, const char *) = strcmp;
    while (!handled) {}
    if (read(pipes[0], &byte, 1) != 1 || byte != 'h')
        syscall(SYS_exit, 1);
    for (int at = 0; at < 10; at++)
        text[at] = (char)('a' + at);
    if (compare(text, "abcdefghij") != 0 || strlen(text) != 10)
        syscall(SYS_exit, 2);
    write(1, "strict\n", 7);
    syscall(SYS_exit, 7);
}

static void keeps_to_it(void) {
    struct sigaction action = {.sa_handler = handle};
    struct itimerval soon = {.it_value.tv_usec = 20000};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    work_on();
}

static void asks_for_more(void) {
    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    syscall(SYS_getpid);
}

static void ends_as_processes_do(void) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    _exit(0);
}

static void *alone(void *nothing) {
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    syscall(SYS_getpid);
    syscall(SYS_getpid);
    return nothing;
}

// The join returns: the kernel announces the end of a thread however it ends.
static void one_of_two(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, alone, NULL);
    pthread_join(thread, NULL);
    _exit(5);
}

static void under_a_filter(void) {
    FILTER(everything, RETURN(SECCOMP_RET_ALLOW));
    install(&everything, 0);
    int refused = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == -1 && errno == EINVAL;
    _exit(refused && prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER ? 6 : 1);
}

int main(void) {
    EXPECT(pipe(pipes) == 0);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) == -1 && errno == EINVAL);
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, main) == -1 && errno == EINVAL);
    EXPECT(prctl(PR_GET_SECCOMP) == 0);
    EXPECT(EXITS_WITH(ending_of(keeps_to_it), 7));
    EXPECT(ENDS_BY(ending_of(asks_for_more), SIGKILL));
    EXPECT(ENDS_BY(ending_of(ends_as_processes_do), SIGKILL));
    EXPECT(EXITS_WITH(ending_of(one_of_two), 5));
    EXPECT(EXITS_WITH(ending_of(under_a_filter), 6));
    puts("end");
}
