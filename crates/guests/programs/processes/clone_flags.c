// What each flag of clone and clone3 shares between parent and child, and the ids that it
// tells, for copies of the process, for children in their parent's place, for threads and for
// processes beside their parent: the kernel is asked by kcmp, from inside the child.
// flags: -O2 -D_GNU_SOURCE
// variants: static
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

#define STACK (64 * 1024)
#define CLEAR_HANDLERS 0x100000000ULL

// Seen by children of all kinds.
static struct seen {
    volatile int done;
    int shares[7], told_parent, told_child, is_parent, handler, umask;
} *seen;
static pid_t parent;
static volatile int parent_tid, child_tid;

static void on_signal(int signal) { (void)signal; }

struct arguments {
    uint64_t flags, pid_file, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

static int look(void *unused) {
    (void)unused;
    pid_t own = syscall(SYS_gettid);
    for (int type = 1; type < 7; type++)
        seen->shares[type] = syscall(SYS_kcmp, parent, own, type, 0, 0) == 0;
    seen->told_parent = parent_tid == own;
    seen->told_child = child_tid == own;
    seen->is_parent = getppid() == parent;
    struct sigaction action;
    sigaction(SIGUSR1, NULL, &action);
    seen->handler = action.sa_handler == on_signal;
    umask(023);
    seen->done = 1;
    return 0;
}

static int end_by_signal(void *unused) {
    (void)unused;
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    return 0;
}

static long clone3(struct arguments *arguments, size_t size, int (*run)(void *)) {
    long result;
    register int (*kept)(void *) __asm__("r12") = run;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "and $-16, %%rsp\n\t"
                     "xor %%edi, %%edi\n\t"
                     "call *%%r12\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov $60, %%eax\n\t"
                     "syscall\n"
                     "1:"
                     : "=a"(result)
                     : "a"(SYS_clone3), "D"(arguments), "S"(size), "r"(kept)
                     : "rcx", "r11", "memory");
    return result;
}

// Waits for the end of a child, in whatever way it is to be waited for.
static int wait_for(long child, uint64_t flags) {
    int status = 0;
    if (flags & CLONE_THREAD) {
        while (syscall(SYS_tgkill, parent, child, 0) == 0)
            usleep(100);
        return 0;
    }
    if (flags & CLONE_PARENT) {
        while (!seen->done)
            usleep(100);
        return 0;
    }
    EXPECT(waitpid(child, &status, __WALL) == child);
    return status;
}

static char *new_stack(void) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED);
    return stack;
}

static void check(const char *kind, uint64_t flags, int by_structure) {
    memset(seen, 0, sizeof *seen);
    parent_tid = child_tid = -1;
    umask(022);
    int descriptor = -1;
    char *stack = new_stack();
    long child;
    if (by_structure) {
        struct arguments arguments = {
            .flags = flags,
            .pid_file = (uint64_t)&descriptor,
            .child_tid = (uint64_t)&child_tid,
            .parent_tid = (uint64_t)&parent_tid,
            .exit_signal = flags & (CLONE_THREAD | CLONE_PARENT) ? 0 : SIGCHLD,
            .stack = (uint64_t)stack,
            .stack_size = STACK,
        };
        child = clone3(&arguments, sizeof arguments, look);
        errno = -child;
    } else {
        void *told = flags & CLONE_PIDFD ? (void *)&descriptor : (void *)&parent_tid;
        child = clone(look, stack + STACK, flags | SIGCHLD, NULL, told, NULL, &child_tid);
    }
    printf("%s %llx %d: ", kind, (unsigned long long)flags, by_structure);
    if (child < 0) {
        printf("%s\n", strerror(errno));
        return;
    }
    int alive = descriptor >= 0 && syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0) == 0;
    int status = wait_for(child, flags);
    EXPECT(seen->done);
    for (int type = 1; type < 7; type++)
        printf("%d", seen->shares[type]);
    if (flags & (CLONE_VFORK | CLONE_THREAD))
        alive = 0;
    int here = flags & CLONE_PARENT_SETTID && parent_tid == child;
    mode_t mask = umask(022);
    printf(" told %d %d %d, parent %d, handler %d, status %x, descriptor %d %d, umask %o\n",
           seen->told_parent, here, seen->told_child, seen->is_parent, seen->handler, status,
           descriptor >= 0, descriptor >= 0 && (alive || flags & (CLONE_VFORK | CLONE_THREAD)), mask);
    if (descriptor >= 0)
        close(descriptor);
    munmap(stack, STACK);
}

// A child that is killed does not clear its word itself.
static void check_word_of_killed(uint64_t flags) {
    char *stack = new_stack();
    child_tid = 77;
    pid_t child = clone(end_by_signal, stack + STACK, flags | CLONE_CHILD_CLEARTID | SIGCHLD, NULL,
                        NULL, NULL, &child_tid);
    EXPECT(child > 0);
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    for (int i = 0; child_tid != 0 && i < 5000; i++)
        usleep(1000);
    printf("killed %llx: status %x, word %d\n", (unsigned long long)flags, status, child_tid);
    munmap(stack, STACK);
}

// A child gets the id that is asked for, where the kernel allows that.
static void check_chosen_id(uint64_t flags) {
    pid_t free_id = fork();
    if (free_id == 0)
        _exit(0);
    EXPECT(waitpid(free_id, NULL, 0) == free_id);
    char *stack = new_stack();
    struct arguments arguments = {
        .flags = flags,
        .exit_signal = flags & CLONE_THREAD ? 0 : SIGCHLD,
        .stack = (uint64_t)stack,
        .stack_size = STACK,
        .set_tid = (uint64_t)&free_id,
        .set_tid_size = 1,
    };
    memset(seen, 0, sizeof *seen);
    long child = clone3(&arguments, sizeof arguments, look);
    if (child > 0)
        wait_for(child, flags);
    printf("chosen id %llx: %s\n", (unsigned long long)flags,
           child < 0 ? strerror(-child) : child == free_id ? "given" : "another");
    munmap(stack, STACK);
}

static void check_all(void) {
    parent = getpid();
    // Something to share: a context of input and output, and a list of semaphores to undo.
    syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4);
    int semaphore = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf up = {0, 1, SEM_UNDO};
    EXPECT(semop(semaphore, &up, 1) == 0);
    EXPECT(semctl(semaphore, 0, IPC_RMID) == 0);
    signal(SIGUSR1, on_signal);
    static const struct {
        const char *name;
        uint64_t flags;
    } kinds[] = {
        {"copy", 0},
        {"in place", CLONE_VM | CLONE_VFORK},
        {"beside", CLONE_VM},
        {"thread", CLONE_VM | CLONE_SIGHAND | CLONE_THREAD},
        {"thread in place", CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK},
    };
    static const uint64_t flags[] = {
        0,
        CLONE_FS,
        CLONE_FILES,
        CLONE_IO,
        CLONE_SYSVSEM,
        CLONE_FS | CLONE_FILES | CLONE_IO | CLONE_SYSVSEM,
        CLONE_PARENT_SETTID | CLONE_CHILD_SETTID,
        CLONE_PIDFD,
        CLONE_PIDFD | CLONE_FILES,
        CLONE_PARENT,
        CLONE_UNTRACED,
        CLEAR_HANDLERS,
    };
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
            if (flags[i] >> 32 == 0)
                check(kinds[kind].name, kinds[kind].flags | flags[i], 0);
            check(kinds[kind].name, kinds[kind].flags | flags[i], 1);
        }
        check_chosen_id(kinds[kind].flags);
    }
    check("with handlers", CLONE_VM | CLONE_SIGHAND, 0);
    check("with handlers", CLONE_VM | CLONE_VFORK | CLONE_SIGHAND, 0);
    check_word_of_killed(CLONE_VM);
    check_word_of_killed(CLONE_VM | CLONE_VFORK);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(seen != MAP_FAILED);
    // Children that their creator gives to its own parent are this one's.
    pid_t child = fork();
    if (child == 0) {
        check_all();
        return 0;
    }
    int status, good = 0;
    for (pid_t ended; (ended = wait(&status)) > 0;)
        good |= ended == child && status == 0;
    EXPECT(good);
    return 0;
}
