// What the guests under seccomp filters share: how a filter is written and installed.
#ifndef UNSPOOL_GUESTS_FILTERS_H
#define UNSPOOL_GUESTS_FILTERS_H

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_LOW(argument) LOAD(args[argument])
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
// What is loaded is compared; if it is the value, the filter ends with the result.
#define IF(value, result) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), RETURN(result)
#define ALLOW(number) IF(number, SECCOMP_RET_ALLOW)

#define FILTER(name, ...)                            \
    struct sock_filter name##_rules[] = {__VA_ARGS__}; \
    struct sock_fprog name = {sizeof name##_rules / sizeof *name##_rules, name##_rules}

static inline long install(struct sock_fprog *filter, unsigned flags) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, filter);
}

// How a child ends that does this; without leaving a core behind.
static inline int ending_of(void (*work)(void)) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        work();
        _exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    return status;
}

#define ENDS_BY(status, signal) (WIFSIGNALED(status) && WTERMSIG(status) == (signal))
#define EXITS_WITH(status, code) (WIFEXITED(status) && WEXITSTATUS(status) == (code))

#endif
