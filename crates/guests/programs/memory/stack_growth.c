// The first thread's stack: where the kernel says that it is, how it grows, up to which limit,
// and what the limit means to children, to other programs and to other threads.
// flags: -O1 -pthread -D_GNU_SOURCE
// variants: static
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define MEGABYTE (1ul << 20)

static unsigned long stack_start, stack_end;

// The only line of the process's mappings that is called a stack.
static void find_stack(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps);
    char line[512];
    int found = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[stack]")) {
            EXPECT(sscanf(line, "%lx-%lx rw-p", &stack_start, &stack_end) == 2);
            found++;
        }
    fclose(maps);
    EXPECT(found == 1);
}

static unsigned long started_at(void) {
    FILE *stat = fopen("/proc/self/stat", "r");
    unsigned long start;
    EXPECT(stat && fscanf(stat, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
                                "%*d %*d %*d %*d %*d %*d %*u %*u %*d %*u %*u %*u %lu",
                          &start) == 1);
    fclose(stat);
    return start;
}

static unsigned long soft_limit(void) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_STACK, &limit) == 0);
    return limit.rlim_cur;
}

static void set_soft_limit(unsigned long bytes) {
    struct rlimit limit;
    EXPECT(getrlimit(RLIMIT_STACK, &limit) == 0);
    limit.rlim_cur = bytes;
    EXPECT(setrlimit(RLIMIT_STACK, &limit) == 0 && soft_limit() == bytes);
}

// Uses that many bytes of stack.
static __attribute__((noinline)) unsigned long dig(unsigned long bytes) {
    volatile char frame[4000];
    frame[0] = 1;
    return bytes < sizeof frame ? 0 : dig(bytes - sizeof frame) + frame[0];
}

static void dig_for_ever(void) { dig(1ul << 46); }

static void look(char **arguments) {
    char here;
    find_stack();
    EXPECT(stack_start <= (unsigned long)&here && (unsigned long)*environ < stack_end);
    EXPECT(started_at() == (unsigned long)(arguments - 1));
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    EXPECT(pthread_getattr_np(pthread_self(), &attributes) == 0);
    EXPECT(pthread_attr_getstack(&attributes, &lowest, &size) == 0);
    EXPECT((char *)lowest < &here && &here < (char *)lowest + size);
    EXPECT((unsigned long)lowest == stack_end - soft_limit());
    pthread_attr_destroy(&attributes);
}

static void grow(void) {
    find_stack();
    unsigned long before = stack_start;
    EXPECT(stack_end - before < MEGABYTE);
    dig(3 * MEGABYTE);
    find_stack();
    EXPECT(before - stack_start > 2 * MEGABYTE && stack_end - stack_start < 4 * MEGABYTE);
}

static void too_deep(int signal, siginfo_t *information, void *context) {
    (void)context;
    unsigned long depth = stack_end - (unsigned long)information->si_addr;
    unsigned long limit = soft_limit();
    // Another page is not to be had.
    int exact = depth > limit && depth <= limit + 4096 && information->si_code == SEGV_MAPERR;
    _exit(signal == SIGSEGV && exact ? 7 : 8);
}

static void wait_for(pid_t child, int status) {
    int ended;
    EXPECT(child > 0 && waitpid(child, &ended, 0) == child);
    EXPECT(WIFEXITED(ended) && WEXITSTATUS(ended) == status);
}

// A child under a limit that was set when both already ran.
static void meet(unsigned long limit) {
    pid_t child = fork();
    if (child == 0) {
        static char room[64 << 10];
        stack_t alternate = {.ss_sp = room, .ss_size = sizeof room};
        struct sigaction action = {.sa_sigaction = too_deep, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        EXPECT(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
        find_stack();
        set_soft_limit(limit);
        dig_for_ever();
    }
    wait_for(child, 7);
}

static void die(void) {
    pid_t child = fork();
    if (child == 0)
        dig_for_ever();
    int ended;
    EXPECT(waitpid(child, &ended, 0) == child && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGSEGV);
}

static void *as_large(void *limit) {
    pthread_attr_t attributes;
    size_t size;
    EXPECT(pthread_getattr_np(pthread_self(), &attributes) == 0);
    EXPECT(pthread_attr_getstacksize(&attributes, &size) == 0);
    pthread_attr_destroy(&attributes);
    EXPECT(size == (size_t)limit);
    return NULL;
}

// Another program, and its threads, under the limit that was in force.
static void start_again(unsigned long limit) {
    pid_t child = fork();
    if (child == 0) {
        char text[32];
        snprintf(text, sizeof text, "%lu", limit);
        set_soft_limit(limit);
        execl("/proc/self/exe", "again", text, NULL);
        _exit(9);
    }
    wait_for(child, 5);
}

static int again(char **arguments, unsigned long limit) {
    EXPECT(soft_limit() == limit);
    if (limit == RLIM_INFINITY) {
        find_stack();
        dig(200 * MEGABYTE);
    } else {
        look(arguments);
        dig(limit - MEGABYTE / 2);
        die();
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, as_large, (void *)limit) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    return 5;
}

// A mapping of the program's own that grows.
static void grow_another(void) {
    int protection = PROT_READ | PROT_WRITE;
    char *area = mmap(NULL, 4 * MEGABYTE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(area != MAP_FAILED && munmap(area + MEGABYTE, 3 * MEGABYTE) == 0);
    char *top = area + 4 * MEGABYTE - 4096;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED;
    EXPECT(mmap(top, 4096, protection, flags, -1, 0) == top);
    for (char *at = top; at > top - MEGABYTE; at -= 4096)
        *at = 1;
    EXPECT(munmap(area, 4 * MEGABYTE) == 0);
}

int main(int count, char **arguments) {
    if (count > 1)
        return again(arguments, strtoul(arguments[1], NULL, 10));
    set_soft_limit(8 * MEGABYTE);
    look(arguments);
    grow();
    grow_another();
    meet(5 * MEGABYTE);
    meet(20 * MEGABYTE);
    set_soft_limit(64 * MEGABYTE);
    dig(60 * MEGABYTE);
    die();
    start_again(2 * MEGABYTE);
    start_again(16 * MEGABYTE);
    start_again(RLIM_INFINITY);
    puts("grown");
    return 0;
}
