// Copies of the process are made in every way, while threads start and end, map memory, write
// code and run it, change handlers and move the program break. Each child does all of that
// itself, and would hang if anything were still locked that only its parent's threads can free.
// Children are counted by themselves and by their parents.
// flags: -O2 -pthread -D_GNU_SOURCE
// limit: 120
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { FORKERS = 2, ROUNDS = 6, WAYS = 7, PAGE = 4096 };

// Shared with all children.
static struct counts {
    atomic_int begun, done;
} *counts;
static atomic_int stop;

static void on_signal(int signal) { (void)signal; }

// Writes a function that returns a number, runs it, writes another in its place, runs that.
static void run_new_code(int number) {
    unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(code != MAP_FAILED);
    for (int round = 0; round < 2; round++, number++) {
        unsigned char text[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov eax, number; ret
        memcpy(text + 1, &number, sizeof number);
        memcpy(code, text, sizeof text);
        EXPECT(((int (*)(void))(uintptr_t)code)() == number);
    }
    EXPECT(munmap(code, PAGE) == 0);
}

static void change_handler(int number) {
    struct sigaction action = {.sa_handler = number % 2 ? on_signal : SIG_IGN};
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
}

static void move_break(void) {
    long end = syscall(SYS_brk, 0);
    EXPECT(end > 0);
    // Another thread may move it, too.
    syscall(SYS_brk, end);
}

static void map_memory(void) {
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory != MAP_FAILED);
    EXPECT(mprotect(memory, PAGE, PROT_READ | PROT_WRITE) == 0);
    memory[0] = 1;
    EXPECT(munmap(memory, 4 * PAGE) == 0);
}

static void *end_at_once(void *nothing) { return nothing; }

static void start_a_thread(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

static void *disturb(void *kind) {
    for (int round = 0; !atomic_load(&stop); round++) {
        switch ((intptr_t)kind) {
        case 0: start_a_thread(); break;
        case 1: run_new_code(round); break;
        case 2: change_handler(round), move_break(), map_memory(); break;
        default: free(malloc(1000 + round % 5000)), map_memory(); break;
        }
    }
    return NULL;
}

struct arguments {
    uint64_t flags, pid_file, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static long copy(int way, int *file, pid_t *parent_tid) {
    struct arguments arguments = {
        .flags = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
        .parent_tid = (uintptr_t)parent_tid,
        .child_tid = (uintptr_t)parent_tid,
        .exit_signal = SIGCHLD,
    };
    switch (way) {
    case 0: return fork();
    case 1: return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    case 2: return syscall(SYS_clone, CLONE_FS | CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    case 3: return syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, file, 0, 0);
    case 4: return syscall(SYS_clone3, &arguments, sizeof arguments);
    case 5: return syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    default: return syscall(SYS_clone, 0, 0, 0, 0, 0);
    }
}

// Only `fork` keeps the C library usable in the child.
static _Noreturn void be_child(int way) {
    atomic_fetch_add(&counts->begun, 1);
    alarm(60);
    run_new_code(way);
    change_handler(way);
    move_break();
    map_memory();
    if (way == 0) {
        free(malloc(12345));
        start_a_thread();
    }
    atomic_fetch_add(&counts->done, 1);
    syscall(SYS_exit_group, way);
    __builtin_unreachable();
}

static void *fork_on(void *unused) {
    for (int number = 0; number < ROUNDS * WAYS; number++) {
        int way = number % WAYS, file = -1, status;
        pid_t told = 0;
        pid_t child = copy(way, &file, &told);
        if (child == 0)
            be_child(way);
        EXPECT(child > 0);
        if (file >= 0)
            close(file);
        EXPECT(waitpid(child, &status, __WALL) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == way);
    }
    return unused;
}

int main(void) {
    pthread_t disturbers[4], forkers[FORKERS];
    counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(counts != MAP_FAILED);
    for (intptr_t kind = 0; kind < 4; kind++)
        pthread_create(&disturbers[kind], NULL, disturb, (void *)kind);
    for (int i = 0; i < FORKERS; i++)
        pthread_create(&forkers[i], NULL, fork_on, NULL);
    for (int i = 0; i < FORKERS; i++)
        pthread_join(forkers[i], NULL);
    atomic_store(&stop, 1);
    for (int kind = 0; kind < 4; kind++)
        pthread_join(disturbers[kind], NULL);
    printf("%d children begun, %d done\n", counts->begun, counts->done);
    return 0;
}
