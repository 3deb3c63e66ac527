// The program looks at its own call path: return addresses, glibc's backtrace, also from a
// signal handler and from another thread. All of them are addresses of this program.
// flags: -O1 -fno-inline -fno-optimize-sibling-calls -fno-omit-frame-pointer -rdynamic -pthread -D_GNU_SOURCE
// variants: non-pie, static
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

extern char start_of_program __asm__("__executable_start"), end_of_program __asm__("etext");

static void *path[64];
static int depth;
static volatile int handled;

static int is_own(void *address) {
    return (char *)address >= &start_of_program && (char *)address < &end_of_program;
}

__attribute__((noinline)) int innermost(int keep) {
    void *caller = __builtin_return_address(0);
    EXPECT(is_own(caller));
    // What was pushed is what will be returned to.
    EXPECT(((void **)__builtin_frame_address(0))[1] == caller);
    depth = backtrace(path, 64);
    return depth + keep;
}

__attribute__((noinline)) int middle(int keep) { return innermost(keep) + 1; }

__attribute__((noinline)) int recursive(int left) {
    return left == 0 ? middle(0) : recursive(left - 1) + 1;
}

// How many entries of the path lie in the program, and in a function that repeats.
static void describe(const char *when) {
    int own = 0, most = 0;
    for (int i = 0; i < depth; i++) {
        own += is_own(path[i]);
        int same = 0;
        for (int j = 0; j < depth; j++)
            same += path[i] == path[j];
        most = same > most ? same : most;
    }
    printf("%s: %d own, %d of them the same\n", when, own, most);
}

static void handler(int signal) {
    recursive(signal == SIGUSR1 ? 3 : 4);
    handled = 1;
}

static void *in_thread(void *argument) {
    recursive(7);
    return argument;
}

int main(void) {
    recursive(10);
    describe("directly");
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    EXPECT(handled);
    describe("in a handler");
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    describe("in a thread");
    return 0;
}
