// A thread unmaps code that another runs in a loop: that one faults, escapes, and the place
// can be used again.
// flags: -O2 -pthread -D_GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

static sigjmp_buf escape;
static unsigned char *page;
static volatile int running;

static void handler(int signal, siginfo_t *information, void *context) {
    (void)context;
    unsigned char *address = information->si_addr;
    EXPECT(address == page || address == page + 2);
    siglongjmp(escape, signal);
}

static void *run(void *argument) {
    int caught = sigsetjmp(escape, 1);
    if (caught == 0) {
        for (;;) {
            ((void (*)(volatile int *))page)(&running);
        }
    }
    EXPECT(caught == SIGSEGV);
    return argument;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 10; i++) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        memcpy(page, (unsigned char[]){0xff, 0x07, 0xc3}, 3); // incl (%rdi); ret
        mprotect(page, 4096, PROT_READ | PROT_EXEC);
        pthread_t thread;
        running = 0;
        pthread_create(&thread, NULL, run, NULL);
        while (running < 1000) {
        }
        EXPECT(mprotect(page, 4096, PROT_NONE) == 0);
        pthread_join(thread, NULL);
    }
    puts("gone ten times");
    return 0;
}
