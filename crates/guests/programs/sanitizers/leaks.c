// Looks for leaks: in a child that shares the memory, after stopping all threads, whose
// registers and stacks may be all that knows a block.
// flags: -O1 -fsanitize=address -pthread
// needs: file /usr/lib/x86_64-linux-gnu/libasan.so.8
// compare: status
// ending: exit 0
// trace: no
#include <pthread.h>
#include <sanitizer/lsan_interface.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"

static int pipe_ends[2];
static volatile int ready, done;

// The only pointer to the block is in r12, while the thread waits in the kernel.
static void *wait(void *unused) {
    register char *block __asm__("r12") = malloc(100);
    char byte;
    long result = 0; // read
    __atomic_add_fetch(&ready, 1, __ATOMIC_RELEASE);
    __asm__ volatile("syscall"
                     : "+a"(result), "+r"(block)
                     : "D"(pipe_ends[0]), "S"(&byte), "d"(1)
                     : "rcx", "r11", "memory");
    free(block);
    return unused;
}

// The same, while it computes.
static void *spin(void *unused) {
    register char *block __asm__("r12") = malloc(100);
    __atomic_add_fetch(&ready, 1, __ATOMIC_RELEASE);
    __asm__ volatile("1: pause\n cmpl $0, (%1)\n je 1b" : "+r"(block) : "r"(&done) : "memory");
    free(block);
    return unused;
}

__attribute__((noinline)) static void lose(void) {
    char *volatile block = malloc(77);
    block[0] = 1;
    block = NULL;
}

int main(void) {
    pthread_t threads[2];
    EXPECT(pipe(pipe_ends) == 0);
    pthread_create(&threads[0], NULL, wait, NULL);
    pthread_create(&threads[1], NULL, spin, NULL);
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != 2)
        usleep(1000);
    usleep(20000);
    EXPECT(!__lsan_do_recoverable_leak_check());
    lose();
    EXPECT(__lsan_do_recoverable_leak_check());
    done = 1;
    EXPECT(write(pipe_ends[1], "", 1) == 1);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    _exit(0);
}
