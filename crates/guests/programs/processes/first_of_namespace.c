// The first process of a PID namespace dies by the signal of its own fault, and is not ended by
// signals that are sent to it, from inside or by itself, while it has no handler for them.
// flags: -O0 -D_GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

static void fault(int signal) {
    static volatile int zero;
    if (signal == SIGSEGV) {
        *(volatile int *)8 = 1;
    } else if (signal == SIGFPE) {
        zero = 7 / zero;
    } else if (signal == SIGILL) {
        __asm__ volatile("ud2");
    } else if (signal == SIGTRAP) {
        __asm__ volatile("int3");
    } else {
        int file = memfd_create("short", 0);
        volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
        zero = page[0];
    }
}

static int end(unsigned flags, int signal, int is_fault) {
    fflush(NULL);
    long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        if (is_fault) {
            fault(signal);
        } else {
            kill(syscall(SYS_getpid), signal);
            usleep(1000);
        }
        _exit(3);
    }
    if (child < 0) {
        printf("%s\n", strerror(errno));
        return -1;
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    return status & ~0x80;
}

int main(void) {
    static const int faults[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGBUS};
    static const int sent[] = {SIGTERM, SIGSEGV, SIGILL, SIGUSR1, SIGALRM, 40, SIGKILL};
    for (int i = 0; i < 5; i++)
        printf("fault %d: %x %x\n", faults[i], end(0, faults[i], 1),
               end(CLONE_NEWPID, faults[i], 1));
    for (int i = 0; i < 7; i++)
        printf("sent %d: %x %x\n", sent[i], end(0, sent[i], 0), end(CLONE_NEWPID, sent[i], 0));
    return 0;
}
