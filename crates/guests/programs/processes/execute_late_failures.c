// exec that the kernel refuses late, when everything about the program is right: there is too
// much of its arguments, they are not there, or a filter forbids the call. All threads
// go on meanwhile, signals come to their handlers, and the mask and the dispositions are what
// they were.
// flags: -O2 -D_GNU_SOURCE
// libraries: -lpthread
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "seccomp/filters.h"

static atomic_int stop;
static atomic_long rounds, alarms;

static void on_alarm(int signal) {
    (void)signal;
    atomic_fetch_add(&alarms, 1);
}

static void *compute(void *unused) {
    (void)unused;
    while (!atomic_load(&stop))
        atomic_fetch_add(&rounds, 1);
    return NULL;
}

static char *string_of(size_t length) {
    char *string = malloc(length + 1);
    memset(string, 'a', length);
    string[length] = 0;
    return string;
}

static void show(const char *what, char *const *arguments, char *const *environment) {
    long before = atomic_load(&rounds);
    errno = 0;
    int result = execve("/bin/true", arguments, environment);
    printf("%s: %d %s\n", what, result, strerror(errno));
    // The other thread goes on.
    while (atomic_load(&rounds) == before)
        usleep(100);
}

static void forbid_execution(void) {
    FILTER(forbidding, LOAD(nr), IF(SYS_execve, SECCOMP_RET_ERRNO | ENOTTY), RETURN(SECCOMP_RET_ALLOW));
    EXPECT(install(&forbidding, 0) == 0);
}

int main(int count, char **given) {
    if (count > 1) {
        // What a new program inherits: ignored signals and the mask, but no handlers.
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        for (int number = 1; number <= 64; number++) {
            struct sigaction action;
            if (number == 32 || number == 33 || sigaction(number, NULL, &action) != 0)
                continue;
            if (action.sa_handler != SIG_DFL || sigismember(&mask, number))
                printf("%d: ignored %d, blocked %d\n", number, action.sa_handler == SIG_IGN,
                       sigismember(&mask, number));
        }
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGSEGV, SIG_IGN);
    signal(SIGBUS, on_alarm);
    sigset_t blocked, now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGILL);
    EXPECT(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, compute, NULL) == 0);
    // Each failure is made in the midst of signals that would end the process by default.
    struct itimerval often = {{0, 500}, {0, 500}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);

    struct rlimit stack = {8 << 20, RLIM_INFINITY}, limit;
    EXPECT(getrlimit(RLIMIT_STACK, &limit) == 0);
    stack.rlim_max = limit.rlim_max;
    EXPECT(setrlimit(RLIMIT_STACK, &stack) == 0);
    char *none[] = {NULL};
    char *long_one[] = {"true", string_of(200000), NULL};
    char *longest[] = {"true", string_of(131072), NULL};
    char *many[40] = {"true"};
    for (int i = 1; i < 39; i++)
        many[i] = long_one[1] + 100000;
    char *bad[] = {"true", (char *)16, NULL};
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    char **endless = (char **)(pages + 4096 - 16);
    endless[0] = endless[1] = "true";
    for (int i = 0; i < 20; i++) {
        show("long", long_one, none);
        show("too long by one", longest, none);
        show("long in the environment", none, long_one);
        show("too many", many, none);
        show("bad string", bad, none);
        show("bad list", (char **)16, none);
        show("bad environment", none, (char **)16);
        show("list without an end", endless, none);
        char *both[] = {"true", (char *)16, long_one[1], NULL};
        show("long before bad", both, both);
    }
    char **crowd = calloc(1 << 18, sizeof *crowd);
    for (int i = 0; i < (1 << 18) - 1; i++)
        crowd[i] = "";
    show("too many pointers", crowd, none);
    forbid_execution();
    for (int i = 0; i < 5; i++)
        show("forbidden", none, none);
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &now) == 0);
    EXPECT(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGALRM));
    EXPECT(sigaction(SIGALRM, NULL, &action) == 0 && action.sa_handler == on_alarm);
    long before = atomic_load(&alarms);
    while (atomic_load(&alarms) == before)
        usleep(100);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    puts("still here");
    struct itimerval never = {{0, 0}, {0, 0}};
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    // execveat is not forbidden.
    char *again[] = {given[0], "again", NULL};
    syscall(SYS_execveat, -100, "/proc/self/exe", again, none, 0);
    return 1;
}
