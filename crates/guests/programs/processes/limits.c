// A program under limits of its own: address space, stack, file size, processes, data; and
// a child that is started under them.
// flags: -O1 -fno-builtin -pthread -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

static volatile sig_atomic_t exceeded;

static void too_large(int signal) { exceeded = signal; }

static void *nothing(void *argument) { return argument; }

static int dig(int level) {
    volatile char frame[1000];
    frame[0] = (char)level;
    return level == 0 ? 0 : dig(level - 1) + frame[0] * 0 + 1;
}

static void limit_file_size(void) {
    struct rlimit limit = {10000, RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    signal(SIGXFSZ, too_large);
    static char bytes[20000];
    int file = open("limited", O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT(file >= 0 && write(file, bytes, sizeof bytes) == 10000);
    EXPECT(write(file, bytes, 1) == -1 && errno == EFBIG && exceeded == SIGXFSZ);
    close(file);
    unlink("limited");
    limit.rlim_cur = RLIM_INFINITY;
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

// As far beyond what is mapped as an allocation of some size, and no further.
static void limit_address_space(void) {
    FILE *status = fopen("/proc/self/statm", "r");
    unsigned long pages;
    EXPECT(status && fscanf(status, "%lu", &pages) == 1);
    fclose(status);
    struct rlimit limit = {(pages << 12) + (64ul << 20), RLIM_INFINITY};
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *large = mmap(NULL, 256ul << 20, protection, flags, -1, 0);
    EXPECT(large == MAP_FAILED && errno == ENOMEM && malloc(256ul << 20) == NULL);
    void *small = mmap(NULL, 16ul << 20, protection, flags, -1, 0);
    EXPECT(small != MAP_FAILED);
    memset(small, 1, 16ul << 20);
    EXPECT(munmap(small, 16ul << 20) == 0);
    // New code, and a child, with what is left.
    EXPECT(dig(100) == 100);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        _exit(strlen(getenv("PATH") ? "yes" : "") == 3 ? 4 : 5);
    int ended;
    EXPECT(waitpid(child, &ended, 0) == child && WIFEXITED(ended));
    limit.rlim_cur = RLIM_INFINITY;
    EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
}

static int by_value(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void limit_data(void) {
    struct rlimit limit = {1ul << 20, RLIM_INFINITY};
    char *before = sbrk(0);
    EXPECT(setrlimit(RLIMIT_DATA, &limit) == 0);
    EXPECT(sbrk(64 << 20) == (void *)-1 && errno == ENOMEM && sbrk(0) == before);
    // New code, for which there is to be room all the same.
    char text[100];
    double numbers[4] = {strtod("2.5", NULL), strtod("1e300", NULL), -1.5, 7};
    time_t now = 1000000000;
    qsort(numbers, 4, sizeof numbers[0], by_value);
    EXPECT(snprintf(text, sizeof text, "%.9f %a %g", numbers[0], numbers[1], numbers[3]) > 20);
    EXPECT(strftime(text, sizeof text, "%F %T", gmtime_r(&now, &(struct tm){0})) == 19);
    limit.rlim_cur = RLIM_INFINITY;
    EXPECT(setrlimit(RLIMIT_DATA, &limit) == 0 && sbrk(4096) == before);
}

static void limit_stack(void) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= 1 << 20);
    limit.rlim_cur = 1 << 20;
    EXPECT(setrlimit(RLIMIT_STACK, &limit) == 0);
    EXPECT(dig(500) == 500);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        _exit(dig(1000000) == 0);
    int ended;
    EXPECT(waitpid(child, &ended, 0) == child);
    printf("too deep: signal %d\n", WTERMSIG(ended));
}

// Root may start what it likes: another user finds the limit.
static void limit_processes(void) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        struct rlimit limit = {0, 0};
        if (geteuid() == 0)
            EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
        EXPECT(setrlimit(RLIMIT_NPROC, &limit) == 0);
        pthread_t thread;
        int problem = pthread_create(&thread, NULL, nothing, NULL);
        EXPECT(problem == EAGAIN && fork() == -1 && errno == EAGAIN);
        _exit(6);
    }
    int ended;
    EXPECT(waitpid(child, &ended, 0) == child && WEXITSTATUS(ended) == 6);
}

int main(void) {
    limit_file_size();
    limit_address_space();
    limit_data();
    limit_processes();
    limit_stack();
    puts("limited");
    return 0;
}
