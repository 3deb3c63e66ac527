// Of several filters' results the strongest counts, and of equal ones the newest; a filter can
// forbid further ones.
// flags: -O2 -D_GNU_SOURCE
#include "filters.h"

static volatile int trapped;
static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    trapped = info->si_errno;
}

static void add(int number, unsigned result) {
    FILTER(rules, LOAD(nr), IF(number, result), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&rules, 0) == 0);
}

static void kills(void) {
    add(SYS_getuid, SECCOMP_RET_KILL_PROCESS);
    add(SYS_getuid, SECCOMP_RET_ERRNO | 5);
    getuid();
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    EXPECT(ENDS_BY(ending_of(kills), SIGSYS));

    pid_t parent = getppid();
    add(SYS_getppid, SECCOMP_RET_LOG);
    EXPECT(getppid() == parent);
    add(SYS_getppid, SECCOMP_RET_TRACE | 5);
    EXPECT(syscall(SYS_getppid) == -1 && errno == ENOSYS);
    add(SYS_getppid, SECCOMP_RET_ERRNO | 11);
    EXPECT(syscall(SYS_getppid) == -1 && errno == 11);
    add(SYS_getppid, SECCOMP_RET_ERRNO | 12);
    EXPECT(syscall(SYS_getppid) == -1 && errno == 12);
    add(SYS_getppid, SECCOMP_RET_ALLOW);
    EXPECT(syscall(SYS_getppid) == -1 && errno == 12);
    add(SYS_getppid, SECCOMP_RET_TRAP | 13);
    EXPECT(syscall(SYS_getppid) == SYS_getppid && trapped == 13);
    add(SYS_clone, SECCOMP_RET_TRACE);
    EXPECT(syscall(SYS_clone, -1, 0, 0, 0, 0) == -1 && errno == ENOSYS);
    add(SYS_seccomp, SECCOMP_RET_ERRNO | 14);
    FILTER(another, RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&another, 0) == -1 && errno == 14);
    EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &another) == 0);
    puts("end");
}
