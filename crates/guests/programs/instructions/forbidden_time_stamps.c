// A program that has asked for a signal where it reads the time-stamp counter: it gets one for
// each of its own reads, and everything else goes on, its children included.
// flags: -O2 -D_GNU_SOURCE -pthread
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "expect.h"

static sigjmp_buf back;
static volatile int faults;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    EXPECT(info->si_code == SI_KERNEL);
    faults++;
    siglongjmp(back, 1);
}

static void read_counter(void) {
    unsigned number;
    if (sigsetjmp(back, 1) == 0) {
        __rdtsc();
        EXPECT(0);
    }
    if (sigsetjmp(back, 1) == 0) {
        __rdtscp(&number);
        EXPECT(0);
    }
}

static void *in_thread(void *nothing) {
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    return nothing;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    int setting, status;
    EXPECT(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
    EXPECT(prctl(PR_GET_TSC, &setting) == 0 && setting == PR_TSC_SIGSEGV);
    sigaction(SIGSEGV, &action, NULL);
    read_counter();
    EXPECT(faults == 2);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    pthread_t thread;
    for (int i = 0; i < 10; i++) {
        EXPECT(pthread_create(&thread, NULL, in_thread, NULL) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    read_counter();
    EXPECT(faults == 4);
    EXPECT(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    EXPECT(__rdtsc() != 0);
    EXPECT(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
    puts("no time stamps");
    return 0;
}
