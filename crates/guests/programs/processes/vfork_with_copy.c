// A child with its own copy of the memory holds its parent's thread until it executes or ends
// (CLONE_VFORK without CLONE_VM), and nothing else: what the parent's other threads do meanwhile
// gets on, also where the child waits for it. What the child starts holds nobody. So it is with
// descriptors of its own and with its parent's (CLONE_FILES).
// flags: -O1 -pthread -D_GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

extern char **environ;

enum { PAGES = 64 };

static int *shared;
static int asks[2], answers[2], stays[2];

static void *nothing_much(void *argument) { return argument; }

// The exit status, or minus the signal.
static int ending(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// New memory, a new thread, and a child of its own.
static void *answer(void *nothing) {
    char byte;
    while (read(asks[0], &byte, 1) == 1) {
        void *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(page, 1, 1 << 20);
        munmap(page, 1 << 20);
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, nothing_much, NULL) == 0);
        pthread_join(thread, NULL);
        // What is mapped while the other thread waits is the child's, too.
        char *pages[PAGES];
        for (int page = 0; page < PAGES; page++) {
            pages[page] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            *pages[page] = 1;
        }
        pid_t child = fork();
        if (child == 0) {
            int sum = 0;
            for (int page = 0; page < PAGES; page++)
                sum += *pages[page];
            _exit(sum == PAGES ? 3 : 4);
        }
        for (int page = 0; page < PAGES; page++)
            munmap(pages[page], 4096);
        int end = ending(child);
        if (end != 3)
            fprintf(stderr, "the child of another thread ended with %d\n", end);
        EXPECT(end == 3);
        EXPECT(write(answers[1], &byte, 1) == 1);
    }
    return nothing;
}

static pid_t start_child_with(long flags) {
    return (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD | flags, NULL, NULL, NULL, NULL);
}

static pid_t start_child(void) { return start_child_with(0); }

static void ask(void) {
    char byte = 1;
    EXPECT(write(asks[1], &byte, 1) == 1 && read(answers[0], &byte, 1) == 1);
}

int main(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(pipe(asks) == 0 && pipe(answers) == 0 && pipe(stays) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, answer, NULL);
    static int copied = 1;
    for (int round = 0; round < 20; round++) {
        *shared = 0;
        pid_t child = start_child_with(round % 4 < 2 ? 0 : CLONE_FILES);
        if (child == 0) {
            copied = 2;
            ask();
            *shared = 1;
            char *arguments[] = {"sh", "-c", "exit 5", NULL};
            if (round % 2)
                execve("/bin/sh", arguments, environ);
            _exit(4);
        }
        EXPECT(*shared == 1 && copied == 1);
        EXPECT(ending(child) == (round % 2 ? 5 : 4));
    }
    // One that closes all that it does not know, and leaves a child behind.
    *shared = 0;
    pid_t child = start_child();
    if (child == 0) {
        if (fork() == 0) {
            char byte;
            close(stays[1]);
            EXPECT(read(stays[0], &byte, 1) == 0);
            *shared = 2;
            _exit(0);
        }
        syscall(SYS_close_range, 3, ~0U, 0);
        for (volatile int wait = 0; wait < 1000000; wait++)
            ;
        *shared = 1;
        _exit(6);
    }
    EXPECT(*shared == 1 && ending(child) == 6);
    close(stays[1]);
    while (*(volatile int *)shared != 2)
        sched_yield();
    // One that is killed.
    for (int files = 0; files < 2; files++) {
        child = start_child_with(files ? CLONE_FILES : 0);
        if (child == 0)
            raise(SIGKILL);
        EXPECT(ending(child) == -SIGKILL);
    }
    // What it opens and closes is its parent's too, also what its own child closes.
    int opened[2];
    EXPECT(pipe(opened) == 0);
    *shared = 0;
    child = start_child_with(CLONE_FILES);
    if (child == 0) {
        pid_t own = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
        if (own == 0) {
            close(opened[0]);
            _exit(7);
        }
        if (ending(own) != 7)
            _exit(8);
        ask();
        *shared = 1;
        dup2(opened[1], opened[0]);
        _exit(9);
    }
    EXPECT(*shared == 1 && ending(child) == 9);
    EXPECT((fcntl(opened[0], F_GETFL) & O_ACCMODE) == O_WRONLY);
    close(opened[0]);
    close(opened[1]);
    puts("the child alone was waited for");
    return 0;
}
