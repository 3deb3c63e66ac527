// Flags of clone and clone3 that do not go together, and structures of clone3 that are too
// small, too large or have bad pointers: every pair of flags with every kind of child gets the
// kernel's error, or a child.
// flags: -O2 -D_GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

#define STACK (64 * 1024)
#define CLEAR_HANDLERS 0x100000000ULL
#define INTO_CGROUP 0x200000000ULL
#define WORDS 16

static const uint64_t flags[] = {
    CLONE_VM,
    CLONE_FS,
    CLONE_FILES,
    CLONE_SIGHAND,
    CLONE_PIDFD,
    CLONE_VFORK,
    CLONE_PARENT,
    CLONE_THREAD,
    CLONE_NEWNS,
    CLONE_SYSVSEM,
    CLONE_PARENT_SETTID,
    CLONE_CHILD_CLEARTID,
    CLONE_DETACHED,
    CLONE_CHILD_SETTID,
    CLONE_NEWCGROUP,
    CLONE_NEWUTS,
    CLONE_NEWIPC,
    CLONE_NEWUSER,
    CLONE_NEWPID,
    CLONE_IO,
    CLEAR_HANDLERS,
    INTO_CGROUP,
    1ULL << 40,
    0x20, // In the place of the exit signal.
    CLONE_NEWTIME,
};
#define FLAGS (sizeof flags / sizeof *flags)

static volatile int word, other_word, descriptor;

static int end(void *unused) {
    (void)unused;
    return 0;
}

// On a stack that is given anew for each child.
static long clone3(const uint64_t *words, size_t size) {
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%edi, %%edi\n\t"
                     "mov $60, %%eax\n\t"
                     "syscall\n"
                     "1:"
                     : "=a"(result)
                     : "a"(SYS_clone3), "D"(words), "S"(size)
                     : "rcx", "r11", "memory");
    return result;
}

// The child is gone afterwards, and its descriptor given back.
static void clean_up(long child, uint64_t asked) {
    if (descriptor >= 0 && asked & CLONE_PIDFD)
        close(descriptor);
    if (child <= 0 || asked & CLONE_PARENT)
        return;
    if (asked & CLONE_THREAD) {
        while (syscall(SYS_tgkill, getpid(), child, 0) == 0)
            usleep(100);
    } else {
        // The first process of a namespace lets the kernel reap its children when it ends, and
        // with that those of everybody with whom it shares dispositions.
        int reaped = asked & CLONE_NEWPID && asked & CLONE_SIGHAND;
        EXPECT(waitpid(child, NULL, __WALL) == child || (reaped && errno == ECHILD));
        if (reaped)
            signal(SIGCHLD, SIG_DFL);
    }
}

static char *new_stack(void) {
    static char *stacks;
    static size_t used;
    if (stacks == NULL || used == 2048) {
        // What children of other parents still use stays where it is.
        stacks = mmap(NULL, 2048 * STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        EXPECT(stacks != MAP_FAILED);
        used = 0;
    }
    return stacks + used++ * STACK;
}

static int try_clone(uint64_t asked) {
    descriptor = -1;
    void *told = asked & CLONE_PIDFD ? (void *)&descriptor : (void *)&word;
    long child = clone(end, new_stack() + STACK, asked | SIGCHLD, NULL, told, NULL, &other_word);
    int error = child < 0 ? errno : 0;
    clean_up(child, asked);
    return error;
}

static int try_clone3(uint64_t asked) {
    descriptor = -1;
    uint64_t words[WORDS] = {asked, (uint64_t)&descriptor, (uint64_t)&other_word,
                             (uint64_t)&word, SIGCHLD, (uint64_t)new_stack(), STACK};
    if (asked & (CLONE_THREAD | CLONE_PARENT))
        words[4] = 0;
    words[10] = 1000; // No such descriptor.
    long child = clone3(words, 88);
    clean_up(child, asked);
    return child < 0 ? -child : 0;
}

static void all_pairs(uint64_t base) {
    for (size_t first = 0; first < FLAGS; first++) {
        printf("%llx with %llx:", (unsigned long long)flags[first], (unsigned long long)base);
        for (size_t second = first; second < FLAGS; second++) {
            uint64_t asked = base | flags[first] | flags[second];
            if (asked >> 32 == 0 && (asked & 0xff) == 0)
                printf(" %d", try_clone(asked));
            printf(" %d", try_clone3(asked));
        }
        printf("\n");
    }
}

static void structure(const char *what, size_t size, size_t place, uint64_t value) {
    uint64_t words[WORDS * 64] = {0};
    words[4] = SIGCHLD;
    if (place < sizeof words / sizeof *words)
        words[place] = value;
    if (place == 0 && value & CLONE_THREAD)
        words[4] = 0;
    long child = clone3(words, size);
    printf("%s: %ld\n", what, child < 0 ? -child : 0);
    if (child > 0)
        EXPECT(waitpid(child, NULL, __WALL) == child);
}

static void structures(void) {
    enum { FLAG, PID_FILE, CHILD, PARENT, SIGNAL, STACK_AT, STACK_SIZE, TLS, IDS, COUNT, GROUP };
    structure("smallest", 64, 15, 0);
    structure("too small", 63, 15, 0);
    structure("nothing", 0, 15, 0);
    structure("larger", 96, 15, 0);
    structure("larger, with something new", 96, 11, 1);
    structure("a page", 4096, 15, 0);
    structure("more than a page", 4097, 15, 0);
    structure("no signal", 88, SIGNAL, 65);
    structure("the last signal", 88, SIGNAL, 64);
    structure("a wide signal", 88, SIGNAL, 0x111);
    structure("a stack without a size", 88, STACK_AT, 0x10000);
    structure("a size without a stack", 88, STACK_SIZE, 0x10000);
    structure("ids without a count", 88, IDS, (uint64_t)&word);
    structure("a count without ids", 88, COUNT, 1);
    structure("too many ids", 88, COUNT, 33);
    structure("a group that is not asked for", 88, GROUP, 5);
    structure("a group in an old structure", 80, FLAG, INTO_CGROUP);
    structure("nowhere for a descriptor", 88, FLAG, CLONE_PIDFD);
    structure("nowhere for ids", 88, FLAG, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID);
    printf("bad pointer: %ld\n", -clone3((uint64_t *)16, 88));
    // What lies behind the end of the memory is not there.
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(munmap(page + 4096, 4096) == 0);
    printf("half a structure: %ld\n", -clone3((uint64_t *)(page + 4096 - 40), 88));
    long child = syscall(SYS_clone, CLONE_SETTLS | SIGCHLD, 0, 0, 0, 1ULL << 63);
    printf("bad thread pointer: %ld %d\n", child, errno);
    child = syscall(SYS_clone, CLONE_SETTLS | CLONE_SIGHAND, 0, 0, 0, 1ULL << 63);
    printf("bad thread pointer and flags: %ld %d\n", child, errno);
    child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, 16, 0, 0);
    printf("bad place for a descriptor: %ld %d\n", child, errno);
    // Signals that there are not are taken by clone, and never sent.
    child = syscall(SYS_clone, 0xff, 0, 0, 0, 0);
    if (child == 0)
        _exit(3);
    int status = 0;
    EXPECT(waitpid(child, &status, __WALL) == child);
    printf("signal 255: %x\n", status);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(64, SIG_IGN);
        structures();
        all_pairs(0);
        all_pairs(CLONE_VM);
        all_pairs(CLONE_VM | CLONE_VFORK);
        all_pairs(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD);
        fflush(NULL);
        _exit(0);
    }
    int status, good = 0;
    for (pid_t ended; (ended = wait(&status)) > 0;)
        good |= ended == child && status == 0;
    EXPECT(good);
    return 0;
}
