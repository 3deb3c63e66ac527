// Two threads under filters of their own for a while, one of which allows no return from handlers:
// what is forbidden stays so, by the same error or with the same SIGSYS, whoever judges it. At the
// end the first thread makes a call that kills. An argument says for how many milliseconds, and a
// second one has the last filter promise a supervisor.
// flags: -O2 -pthread -D_GNU_SOURCE
// arguments: 100
// ending: signal 31
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "filters.h"

static long length_ms;
static volatile unsigned long trapped_at;
static atomic_int second_is_over;

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    trapped_at = (unsigned long)info->si_call_addr;
}

static void check(int error) {
    EXPECT(syscall(SYS_getppid) == -1 && errno == error);
    struct timespec moment = {0, 3000000};
    EXPECT(nanosleep(&moment, NULL) == 0);
}

// The call that is trapped, and the address behind it.
static unsigned long trap(void) {
    unsigned long behind, result = SYS_getuid;
    __asm__ volatile("lea 1f(%%rip), %1\n\tsyscall\n1:" : "+a"(result), "=&r"(behind) : : "rcx", "r11", "memory");
    return behind;
}

#define USUAL                                                                                   \
    ALLOW(SYS_write), ALLOW(SYS_nanosleep), ALLOW(SYS_clock_nanosleep), ALLOW(SYS_exit),        \
        ALLOW(SYS_clock_gettime), ALLOW(SYS_madvise), ALLOW(SYS_munmap), ALLOW(SYS_futex),      \
        ALLOW(SYS_rt_sigprocmask)

static void *second(void *unused) {
    FILTER(rules, LOAD(nr), IF(SYS_getppid, SECCOMP_RET_ERRNO | EACCES), USUAL,
           RETURN(SECCOMP_RET_KILL_PROCESS));
    EXPECT(install(&rules, 0) == 0);
    for (long end = now_ms() + length_ms; now_ms() < end;)
        check(EACCES);
    second_is_over = 1;
    return unused;
}

int main(int count, char **arguments) {
    length_ms = count > 1 ? atol(arguments[1]) : 100;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, second, NULL) == 0);
    FILTER(first, LOAD(nr), IF(SYS_getppid, SECCOMP_RET_ERRNO | EPERM),
           ALLOW(SYS_seccomp), ALLOW(SYS_prctl), ALLOW(SYS_getuid), ALLOW(SYS_rt_sigreturn), USUAL,
           RETURN(SECCOMP_RET_KILL_PROCESS));
    FILTER(then, LOAD(nr), IF(SYS_getuid, SECCOMP_RET_TRAP), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&first, 0) == 0);
    EXPECT(install(&then, count > 2 ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0) >= 0);
    for (long end = now_ms() + length_ms; now_ms() < end || !second_is_over;) {
        check(EPERM);
        unsigned long behind = trap();
        EXPECT(trapped_at == behind);
    }
    static const char text[] = "under filters all the time\n";
    EXPECT(write(1, text, sizeof text - 1) == sizeof text - 1);
    // Whatever forbids it ends the process.
    syscall(SYS_getgid);
    static const char wrong[] = "not killed\n";
    EXPECT(write(1, wrong, sizeof wrong - 1) > 0);
    return 0;
}
