// Forbids itself everything but the few calls that it makes: code that is new, memory that
// grows, output and handlers' returns work; what is not on the list kills.
// flags: -O2 -D_GNU_SOURCE
#include "filters.h"

static void forbid(int returning) {
    FILTER(rules, LOAD(nr), ALLOW(SYS_write), ALLOW(SYS_brk), ALLOW(SYS_exit_group),
           ALLOW(SYS_fstat), ALLOW(SYS_ioctl), ALLOW(SYS_sysinfo), ALLOW(SYS_getrandom), ALLOW(SYS_newfstatat),
           ALLOW(returning ? SYS_rt_sigreturn : SYS_write), ALLOW(SYS_gettid),
           ALLOW(SYS_getpid), ALLOW(SYS_tgkill), ALLOW(SYS_rt_sigprocmask),
           RETURN(SECCOMP_RET_KILL_PROCESS));
    EXPECT(install(&rules, 0) == 0);
}

static int compare(const void *one, const void *other) {
    return *(const int *)one - *(const int *)other;
}

static void work(void) {
    forbid(0);
    static int numbers[1000];
    for (int at = 0; at < 1000; at++)
        numbers[at] = at * 7919 % 1000;
    qsort(numbers, 1000, sizeof *numbers, compare);
    long sum = 0;
    for (int size = 100; size < 100000; size *= 2) {
        char *memory = malloc(size);
        memset(memory, size, size);
        sum += memory[size - 1];
    }
    printf("%d %d %ld %s %.3f\n", numbers[0], numbers[999], sum, strerror(2), atof("1.25"));
    fflush(stdout);
    _exit(numbers[500] == 500 ? 3 : 1);
}

static volatile sig_atomic_t handled;
static void handle(int signal) { handled += signal; }

static void returns_from_handlers(void) {
    signal(SIGUSR1, handle);
    forbid(1);
    for (int round = 0; round < 3; round++)
        raise(SIGUSR1);
    _exit(handled == 3 * SIGUSR1 ? 4 : 1);
}

static void may_not_return(void) {
    signal(SIGUSR1, handle);
    forbid(0);
    raise(SIGUSR1);
    _exit(1);
}

static void may_not_ask(void) {
    forbid(0);
    getppid();
}

int main(void) {
    EXPECT(EXITS_WITH(ending_of(work), 3));
    EXPECT(EXITS_WITH(ending_of(returns_from_handlers), 4));
    EXPECT(ENDS_BY(ending_of(may_not_return), SIGSYS));
    EXPECT(ENDS_BY(ending_of(may_not_ask), SIGSYS));
    puts("end");
}
