// A program that leaves itself little address space, and then starts a thread with a small stack;
// with the argument `filtered` under a seccomp filter that allows everything, and for which somebody
// may be asked.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "expect.h"

#define LEFT ((rlim_t)40 << 20)
#define STACK ((size_t)64 << 10)

static int sum;

static void *work(void *argument) {
    for (int i = 0; i < 1000; i++) sum += i;
    return argument;
}

// How much address space the process has.
static rlim_t used(void) {
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    return (rlim_t)pages * 4096;
}

static void filter(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) >= 0);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "filtered") == 0) filter();
    static char stack[STACK] __attribute__((aligned(4096)));
    pthread_attr_t attributes;
    EXPECT(pthread_attr_init(&attributes) == 0);
    EXPECT(pthread_attr_setstack(&attributes, stack, STACK) == 0);
    rlim_t most = used() + LEFT;
    EXPECT(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) == 0);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, work, NULL);
    printf("a thread: %s\n", error == 0 ? "there" : error == EAGAIN ? "refused" : strerror(error));
    if (error) return 0;
    EXPECT(pthread_join(thread, NULL) == 0 && sum == 999 * 500);
    puts("its work is done");
    return 0;
}
