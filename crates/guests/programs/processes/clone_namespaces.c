// Children of all kinds in namespaces of their own: what they do there, the host's name for
// instance, stays there, and they are the first process of theirs. Threads of the parent run
// beside them. Where namespaces are not permitted, the kernel's error is the same.
// flags: -O2 -D_GNU_SOURCE
// libraries: -lpthread
// variants: static
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "expect.h"

#define STACK (256 * 1024)

static const char *const kinds_of_namespace[] = {"uts", "pid", "user", "ipc", "mnt", "cgroup", "net"};
#define NAMESPACES (sizeof kinds_of_namespace / sizeof *kinds_of_namespace)

static struct seen {
    char namespaces[NAMESPACES][64];
    char host_name[65];
    pid_t pid, tid;
    int renamed;
    volatile int done;
} *seen;
static char own_namespaces[NAMESPACES][64];
static pid_t parent;
static atomic_int stop;
static atomic_long rounds;

static void read_namespaces(char (*to)[64], const char *thread) {
    for (size_t i = 0; i < NAMESPACES; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/ns/%s", thread, kinds_of_namespace[i]);
        ssize_t length = readlink(path, to[i], 63);
        to[i][length < 0 ? 0 : length] = 0;
    }
}

static int look(void *unused) {
    (void)unused;
    seen->pid = syscall(SYS_getpid);
    seen->tid = syscall(SYS_gettid);
    read_namespaces(seen->namespaces, "thread-self");
    // Never that of the host on which the tests run.
    if (seen->namespaces[0][0] && strcmp(seen->namespaces[0], own_namespaces[0]) != 0) {
        seen->renamed = sethostname("elsewhere", 9) == 0;
        struct utsname name;
        uname(&name);
        strcpy(seen->host_name, name.nodename);
    }
    seen->done = 1;
    return 7;
}

static void check(const char *kind, unsigned flags) {
    memset(seen, 0, sizeof *seen);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED);
    int child = clone(look, stack + STACK, flags | SIGCHLD, NULL);
    printf("%s %x: ", kind, flags);
    if (child < 0) {
        printf("%s\n", strerror(errno));
        return;
    }
    int status = 0;
    if (flags & CLONE_THREAD)
        while (syscall(SYS_tgkill, parent, child, 0) == 0)
            usleep(100);
    else
        EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(seen->done);
    for (size_t i = 0; i < NAMESPACES; i++)
        if (seen->namespaces[i][0] && strcmp(seen->namespaces[i], own_namespaces[i]) != 0)
            printf("own %s, ", kinds_of_namespace[i]);
    int same_id = (flags & CLONE_THREAD ? seen->tid : seen->pid) == child;
    printf("first %d, same id %d, renamed %d %s, status %x\n", seen->pid == 1, same_id,
           seen->renamed, seen->host_name, status);
    munmap(stack, STACK);
}

// Its children are in another namespace, without a flag that says so.
static int after_unshare(void *unused) {
    (void)unused;
    if (unshare(CLONE_NEWPID) != 0) {
        printf("unshare: %s\n", strerror(errno));
        return 0;
    }
    check("copy after unshare", 0);
    check("in place after unshare", CLONE_VM | CLONE_VFORK);
    check("thread after unshare", CLONE_VM | CLONE_SIGHAND | CLONE_THREAD);
    return 0;
}

static void *compute(void *unused) {
    (void)unused;
    while (!atomic_load_explicit(&stop, memory_order_relaxed))
        atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    parent = getpid();
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(seen != MAP_FAILED);
    read_namespaces(own_namespaces, "self");
    struct utsname before, after;
    EXPECT(uname(&before) == 0);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, compute, NULL) == 0);
    static const struct {
        const char *name;
        unsigned flags;
    } kinds[] = {
        {"copy", 0},
        {"in place", CLONE_VM | CLONE_VFORK},
        {"beside", CLONE_VM},
        {"thread", CLONE_VM | CLONE_SIGHAND | CLONE_THREAD},
    };
    static const unsigned flags[] = {
        CLONE_NEWUTS,
        CLONE_NEWPID,
        CLONE_NEWUTS | CLONE_NEWPID,
        CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP,
        CLONE_NEWNS,
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWUTS,
        CLONE_NEWUTS | CLONE_NEWNET,
        CLONE_NEWNS | CLONE_FS,
    };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
            check(kinds[kind].name, kinds[kind].flags | flags[i]);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        parent = getpid();
        exit(after_unshare(NULL));
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(uname(&after) == 0);
    EXPECT(strcmp(before.nodename, after.nodename) == 0);
    EXPECT(atomic_load(&rounds) > 0);
    printf("the host has its name\n");
    return 0;
}
